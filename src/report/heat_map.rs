//! Heat maps of spatial LPIPS as PNG: black (no difference) over red and yellow to white (the map's maximum).

use std::path::Path;

/// Writes `map`, row by row, scaled so that its maximum is white. The file is there as a whole or not at all.
pub fn write(path: &Path, map: &[f32], width: usize) -> Result<(), String> {
    let height = map.len().checked_div(width).unwrap_or(0);
    let max = map.iter().copied().fold(0.0f32, f32::max);
    let pixels: Vec<u8> = map
        .iter()
        .flat_map(|&v| colour(if max > 0.0 { v / max } else { 0.0 }))
        .collect();
    let image = image::RgbImage::from_raw(width as u32, height as u32, pixels)
        .ok_or("the map does not fill its rows")?;
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    }
    let partial = path.with_extension("png.partial");
    let saved = image.save_with_format(&partial, image::ImageFormat::Png);
    saved.map_err(|e| e.to_string())?;
    std::fs::rename(&partial, path).map_err(|e| e.to_string())
}

/// Three ramps one after another: red, then green, then blue.
fn colour(t: f32) -> [u8; 3] {
    [0.0, 1.0, 2.0].map(|start| ((3.0 * t - start).clamp(0.0, 1.0) * 255.0).round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_runs_from_black_to_white() {
        assert_eq!(colour(0.0), [0, 0, 0]);
        assert_eq!(colour(0.5), [255, 128, 0]);
        assert_eq!(colour(1.0), [255, 255, 255]);
    }
}
