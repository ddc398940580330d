//! Unit lengths and the cone, row by row.

use foil::diffusion::{Cone, ConeRule, normalise};
use foil::tensor::Array;

use crate::{Golden, close};

fn projected(degrees: f64, robust: &Array, axis: &Array) -> Vec<Option<Vec<f32>>> {
    let cone = Cone {
        degrees,
        rule: ConeRule::Published,
    };
    (0..robust.shape[0])
        .map(|i| {
            cone.project(robust.row(i), axis.row(i))
                .map(|p| p.direction)
        })
        .collect()
}

fn joined(rows: Vec<Option<Vec<f32>>>, shape: &[usize]) -> Array {
    let rows: Vec<f32> = rows.into_iter().flat_map(|r| r.unwrap()).collect();
    Array::new(shape, rows).unwrap()
}

#[test]
fn the_cone_of_the_public_code() {
    let Some(golden) = Golden::open("cone_projection.safetensors") else {
        return;
    };
    let (robust, axis) = (
        golden.array("robust_gradient"),
        golden.array("target_gradient"),
    );
    for degrees in [15, 30, 60] {
        let name = format!("cone_{degrees}");
        let found = joined(projected(f64::from(degrees), &robust, &axis), &robust.shape);
        close(&name, &found, &golden.array(&name), 1e-5);
    }
    let angles = golden.array("angles_deg");
    for (i, angle) in angles.data.iter().enumerate() {
        let cone = crate::CONE.project(robust.row(i), axis.row(i)).unwrap();
        assert!(
            (cone.angle - f64::from(*angle)).abs() < 0.05,
            "{i}: {}",
            cone.angle
        );
    }
    let same = golden.array("same_gradient.in");
    let found = joined(projected(30.0, &same, &same), &same.shape);
    close("same", &found, &golden.array("same_gradient.out"), 1e-5);
    // Where the public code gives numbers that are none, there is no direction.
    let (robust, axis) = (
        golden.array("zero_target.robust"),
        golden.array("zero_target.target"),
    );
    let found = projected(30.0, &robust, &axis);
    let none = golden.numbers("zero_target.out_is_nan");
    assert_eq!(found[0].is_none(), none[0] == 1);
    let row = golden.array("zero_target.out_row1");
    let second = Array::new([24], found[1].clone().unwrap()).unwrap();
    close("beside a zero", &second, &row, 1e-5);
}

#[test]
fn unit_lengths() {
    let Some(golden) = Golden::open("cone_projection.safetensors") else {
        return;
    };
    let mut found = golden.array("l2_normalize.in");
    let len = found.len() / found.shape[0];
    found.data.chunks_mut(len).for_each(|row| {
        normalise(row);
    });
    close(
        "l2_normalize",
        &found,
        &golden.array("l2_normalize.out"),
        1e-5,
    );
}
