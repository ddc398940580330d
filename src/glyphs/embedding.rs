//! Coordinates of characters and typefaces in three dimensions, such that what looks alike lies close.
//!
//! A distance image, cut off at ±[`CUT`] and averaged over squares of [`POOL`] × [`POOL`] nodes, is a description of a
//! shape. A character is described by its shapes in all typefaces, a typeface by its shapes of all characters. The
//! first three principal components of these descriptions, each scaled to unit variance, are the coordinates; then
//! points closer than [`SEPARATION`] are pushed apart. Plain f64 arithmetic in a fixed order: the same bits everywhere.

use rayon::prelude::*;

use super::atlas::GRID;
use super::{Atlas, Attributes, CHARACTERS};

/// Distances beyond this say nothing about the shape of a stroke.
pub const CUT: f32 = 0.125;

/// Side of the squares that are averaged.
pub const POOL: usize = 4;

/// No two embeddings are closer than this.
pub const SEPARATION: f64 = 0.75;

/// Length of a latent vector: 0–2 character, 3–5 typeface, 6 inverse colour, 7 scale, 8 x, 9 y, 10 rotation.
pub const LATENT: usize = 11;

/// Numbers that describe one shape.
const SHAPE: usize = (GRID / POOL) * (GRID / POOL);

/// Rounds of the search for principal components.
const ROUNDS: usize = 500;

/// Most rounds of pushing apart.
const PUSHES: usize = 2000;

/// Coordinates of every character and every typeface.
#[derive(Debug, Clone, PartialEq)]
pub struct Embeddings {
    /// In the order of [`CHARACTERS`].
    pub characters: Vec<[f32; 3]>,
    /// In the order of [`super::Fonts`].
    pub fonts: Vec<[f32; 3]>,
}

impl Embeddings {
    /// Coordinates from the shapes of an atlas, which is computed as a whole.
    pub fn new(atlas: &Atlas) -> Self {
        let glyphs = atlas.glyphs();
        let shapes: Vec<[f64; SHAPE]> = glyphs.iter().map(|g| shape(&g.distances)).collect();
        let fonts = atlas.font_count();
        Self {
            characters: embed(CHARACTERS.len(), fonts, |c, f| &shapes[c * fonts + f]),
            fonts: embed(fonts, CHARACTERS.len(), |f, c| &shapes[c * fonts + f]),
        }
    }

    /// The latent vector of an image; `None` if there is no such character or typeface.
    pub fn latent(&self, attributes: &Attributes) -> Option<[f32; LATENT]> {
        let character = self.characters.get(attributes.character)?;
        let font = self.fonts.get(attributes.font)?;
        Some([
            character[0],
            character[1],
            character[2],
            font[0],
            font[1],
            font[2],
            f32::from(u8::from(attributes.inverse)),
            attributes.scale,
            attributes.x,
            attributes.y,
            attributes.rotation,
        ])
    }
}

/// Means of cut distances over squares.
fn shape(distances: &[f32]) -> [f64; SHAPE] {
    let side = GRID / POOL;
    let mut shape = [0.0; SHAPE];
    for (i, row) in distances.chunks_exact(GRID).enumerate() {
        for (k, value) in row.iter().enumerate() {
            shape[i / POOL * side + k / POOL] += f64::from(value.clamp(-CUT, CUT));
        }
    }
    shape.map(|sum| sum / (POOL * POOL) as f64)
}

/// Coordinates of `items`, each described by `parts` shapes.
fn embed<'a>(
    items: usize,
    parts: usize,
    shape: impl Fn(usize, usize) -> &'a [f64; SHAPE] + Sync,
) -> Vec<[f32; 3]> {
    let product = |a: &[f64; SHAPE], b: &[f64; SHAPE]| {
        let mut sums = [0.0; 8];
        for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
            for k in 0..8 {
                sums[k] += a[k] * b[k];
            }
        }
        sums.iter().sum::<f64>()
    };
    let row = |i: usize| -> Vec<f64> {
        let of_pair = |j| (0..parts).map(|p| product(shape(i, p), shape(j, p))).sum();
        (0..items).map(of_pair).collect()
    };
    let mut gram: Vec<Vec<f64>> = (0..items).into_par_iter().map(row).collect();
    centre(&mut gram);
    let components = principal_components(&gram);
    let mut points: Vec<[f64; 3]> = (0..items)
        .map(|i| components.each_ref().map(|c| c[i] * (items as f64).sqrt()))
        .collect();
    push_apart(&mut points);
    points.iter().map(|p| p.map(|v| v as f32)).collect()
}

/// The products of descriptions from which their mean has been subtracted.
fn centre(gram: &mut [Vec<f64>]) {
    let n = gram.len() as f64;
    let rows: Vec<f64> = gram.iter().map(|r| r.iter().sum::<f64>() / n).collect();
    let all = rows.iter().sum::<f64>() / n;
    for (i, row) in gram.iter_mut().enumerate() {
        for (j, value) in row.iter_mut().enumerate() {
            *value += all - rows[i] - rows[j];
        }
    }
}

/// Eigenvectors of the three largest eigenvalues of a symmetric matrix without negative ones, of unit length, zero where
/// there is no further component; the largest entry of each is positive. Power iteration, one after another.
fn principal_components(matrix: &[Vec<f64>]) -> [Vec<f64>; 3] {
    let n = matrix.len();
    let trace: f64 = (0..n).map(|i| matrix[i][i]).sum();
    let mut found: [Vec<f64>; 3] = std::array::from_fn(|_| vec![0.0; n]);
    for component in 0..3 {
        // Any start that is not at right angles to the component does.
        let start = |i: usize| ((i * 37 + 11 * component + 5) % 101) as f64 / 50.0 - 1.0;
        let mut vector: Vec<f64> = (0..n).map(start).collect();
        let mut value = 0.0;
        for _ in 0..ROUNDS {
            let rows = matrix.iter();
            let mut next: Vec<f64> = rows.map(|row| dot(row, &vector)).collect();
            for before in &found[..component] {
                let share = dot(before, &next);
                next.iter_mut()
                    .zip(before)
                    .for_each(|(v, b)| *v -= share * b);
            }
            value = dot(&next, &next).sqrt();
            // What is left is rounding: there is no further component.
            if value <= 1e-9 * trace {
                break;
            }
            next.iter_mut().for_each(|v| *v /= value);
            vector = next;
        }
        if value <= 1e-9 * trace {
            break;
        }
        let largest = vector
            .iter()
            .copied()
            .max_by(|a, b| a.abs().total_cmp(&b.abs()));
        let sign = largest.map_or(1.0, f64::signum);
        found[component] = vector.iter().map(|v| sign * v).collect();
    }
    found
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Moves points that are too close away from each other, each by the same way, until none are.
fn push_apart(points: &mut [[f64; 3]]) {
    for _ in 0..PUSHES {
        let mut moved = false;
        for i in 0..points.len() {
            for j in 0..i {
                let gap = [0, 1, 2].map(|k| points[i][k] - points[j][k]);
                let distance = dot(&gap, &gap).sqrt();
                if distance >= SEPARATION {
                    continue;
                }
                moved = true;
                let away = if distance > 1e-6 {
                    gap.map(|v| v / distance)
                } else {
                    // Equal points part along an axis.
                    std::array::from_fn(|k| f64::from(u8::from(k == (i + j) % 3)))
                };
                // A little more than needed, so that the end is reached in finitely many rounds.
                let step = 0.5 * (SEPARATION - distance) + 1e-3;
                for k in 0..3 {
                    points[i][k] += step * away[k];
                    points[j][k] -= step * away[k];
                }
            }
        }
        if !moved {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(a: &[f32; 3], b: &[f32; 3]) -> f64 {
        let gap = [0, 1, 2].map(|k| f64::from(a[k]) - f64::from(b[k]));
        dot(&gap, &gap).sqrt()
    }

    #[test]
    fn no_two_embeddings_are_close() {
        let embeddings = Embeddings::new(&Atlas::embedded().unwrap());
        for table in [&embeddings.characters, &embeddings.fonts] {
            assert_eq!(table.len(), 48);
            for i in 0..table.len() {
                for j in 0..i {
                    // f32 rounding of coordinates of size 3.
                    assert!(distance(&table[i], &table[j]) > SEPARATION - 1e-5);
                }
                assert!(table[i].iter().all(|v| v.abs() < 8.0), "{:?}", table[i]);
            }
        }
    }

    #[test]
    fn letters_with_accents_lie_near_their_like() {
        let embeddings = Embeddings::new(&Atlas::embedded().unwrap());
        let place = |c: char| CHARACTERS.iter().position(|&k| k == c).unwrap();
        let gap = |a, b| {
            distance(
                &embeddings.characters[place(a)],
                &embeddings.characters[place(b)],
            )
        };
        assert!(gap('è', 'é') < gap('è', 'w'));
        assert!(gap('ù', 'ú') < gap('ù', 'm'));
        assert!(gap('i', 'l') < gap('i', 'm'));
    }

    #[test]
    fn equal_shapes_still_get_places_of_their_own() {
        let one = [0.25; SHAPE];
        let points = embed(5, 2, |_, _| &one);
        for i in 0..5 {
            for j in 0..i {
                assert!(distance(&points[i], &points[j]) > SEPARATION - 1e-5);
            }
        }
    }

    #[test]
    fn components_of_a_diagonal_matrix_are_its_largest_axes() {
        let values = [1.0, 9.0, 0.5, 4.0];
        let matrix: Vec<Vec<f64>> = (0..4)
            .map(|i| {
                (0..4)
                    .map(|j| if i == j { values[i] } else { 0.0 })
                    .collect()
            })
            .collect();
        let found = principal_components(&matrix);
        for (component, axis) in found.iter().zip([1, 3, 0]) {
            assert!((component[axis] - 1.0).abs() < 1e-12, "{component:?}");
        }
    }

    #[test]
    fn a_latent_vector_holds_the_attributes_in_their_places() {
        let embeddings = Embeddings {
            characters: vec![[1.0, 2.0, 3.0]],
            fonts: vec![[4.0, 5.0, 6.0]],
        };
        let mut attributes = Attributes {
            character: 0,
            font: 0,
            inverse: true,
            scale: 0.7,
            x: -0.5,
            y: 0.25,
            rotation: 0.1,
        };
        let expected = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1.0, 0.7, -0.5, 0.25, 0.1];
        assert_eq!(embeddings.latent(&attributes), Some(expected));
        attributes.font = 1;
        assert_eq!(embeddings.latent(&attributes), None);
    }
}
