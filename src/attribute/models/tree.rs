//! A regression tree as scikit-learn stores it.

/// A row goes left where its feature, rounded to f32, is at most the threshold. A leaf has no children (`usize::MAX`).
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    pub dimension: usize,
    pub left: Vec<usize>,
    pub right: Vec<usize>,
    pub feature: Vec<usize>,
    pub threshold: Vec<f64>,
    pub value: Vec<f64>,
    /// Variance of the labels in each node, where the tree was grown here.
    pub impurity: Vec<f64>,
}

/// Marks a leaf.
pub const NO_CHILD: usize = usize::MAX;

impl Tree {
    /// The leaf that a row ends in.
    pub fn leaf(&self, row: &[f64]) -> usize {
        let mut node = 0;
        while self.left[node] != NO_CHILD {
            node = match self.goes_left(node, row) {
                true => self.left[node],
                false => self.right[node],
            };
        }
        node
    }

    pub fn is_leaf(&self, node: usize) -> bool {
        self.left[node] == NO_CHILD
    }

    pub fn goes_left(&self, node: usize, row: &[f64]) -> bool {
        f64::from(row[self.feature[node]] as f32) <= self.threshold[node]
    }

    pub fn predict_into(&self, rows: &[f64], out: &mut [f64]) {
        for (out, row) in out.iter_mut().zip(rows.chunks_exact(self.dimension.max(1))) {
            *out = self.value[self.leaf(row)];
        }
    }

    pub fn leaves(&self) -> usize {
        self.left.iter().filter(|&&l| l == NO_CHILD).count()
    }

    /// Longest way from the root to a leaf, in steps.
    pub fn depth(&self) -> usize {
        let mut depth = vec![0; self.left.len()];
        let mut most = 0;
        for node in 0..self.left.len() {
            if !self.is_leaf(node) {
                for child in [self.left[node], self.right[node]] {
                    depth[child] = depth[node] + 1;
                    most = most.max(depth[child]);
                }
            }
        }
        most
    }
}
