//! The two data sets that follow from their rules.

/// Balance Scale: every left and right weight and distance from 1 to 5; the class is the side that goes down (L 0, R 1, balanced 2).
/// A CSV in the order of the original file.
pub fn balance_scale() -> String {
    let mut text = String::from("left_weight,left_distance,right_weight,right_distance,class\n");
    for place in 0..625 {
        let digit = |power: u32| place / 5usize.pow(power) % 5 + 1;
        let [a, b, c, d] = [digit(3), digit(2), digit(1), digit(0)];
        let class = match (a * b).cmp(&(c * d)) {
            std::cmp::Ordering::Greater => 0,
            std::cmp::Ordering::Less => 1,
            std::cmp::Ordering::Equal => 2,
        };
        text.push_str(&format!("{a},{b},{c},{d},{class}\n"));
    }
    text
}

const LINES: [[usize; 3]; 8] = [
    [0, 1, 2],
    [3, 4, 5],
    [6, 7, 8],
    [0, 3, 6],
    [1, 4, 7],
    [2, 5, 8],
    [0, 4, 8],
    [2, 4, 6],
];

/// Tic-Tac-Toe: every board at the end of a game that x began; class 1 if x has won. Boards in order of text with x before o before b (empty),
/// those that x has won first, then those that o has won, then draws, as in the original file.
pub fn tic_tac_toe() -> String {
    let places = [
        "top_left",
        "top_middle",
        "top_right",
        "middle_left",
        "middle_middle",
        "middle_right",
        "bottom_left",
        "bottom_middle",
        "bottom_right",
    ];
    let mut ends = [String::new(), String::new(), String::new()];
    for number in 0..3usize.pow(9) {
        let mark = |place: usize| ['x', 'o', 'b'][number / 3usize.pow(8 - place as u32) % 3];
        let board: Vec<char> = (0..9).map(mark).collect();
        let count = |who: char| board.iter().filter(|&&m| m == who).count();
        let lines = |who: char| LINES.iter().any(|l| l.iter().all(|&p| board[p] == who));
        let (x, o) = (count('x'), count('o'));
        let ended = match (lines('x'), lines('o')) {
            (true, true) => false,
            (true, false) => x == o + 1,
            (false, true) => x == o,
            (false, false) => x + o == 9 && x == o + 1,
        };
        if ended {
            let cells: Vec<String> = board.iter().map(char::to_string).collect();
            let class = usize::from(lines('x'));
            let end = if lines('x') {
                0
            } else if lines('o') {
                1
            } else {
                2
            };
            ends[end].push_str(&format!("{},{class}\n", cells.join(",")));
        }
    }
    format!("{},class\n{}", places.join(","), ends.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_and_scales_are_as_many_as_the_originals() {
        let count = |text: &str, class: &str| text.lines().filter(|l| l.ends_with(class)).count();
        let boards = tic_tac_toe();
        assert_eq!((count(&boards, ",1"), count(&boards, ",0")), (626, 332));
        let scales = balance_scale();
        assert_eq!(
            [",0", ",1", ",2"].map(|c| count(&scales, c)),
            [288, 288, 49]
        );
    }
}
