//! The 22 data sets of \[tabular-benchmark\]: where each comes from, what its table must look like, and its rules over several features.

/// How a data set is got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This program makes it from its rules.
    Generated,
    /// A file of the UCI repository, by the data set's page and the name of the file.
    Uci(&'static str, &'static str),
}

/// One data set of the benchmark.
#[derive(Clone, Copy, Debug)]
pub struct DataSet {
    pub name: &'static str,
    pub source: Source,
    /// Rows and features (without the class) of the table.
    pub rows: usize,
    pub features: usize,
    /// What the benchmark did to the original file.
    pub preparation: &'static str,
    /// Rules that hold for every row.
    pub rules: &'static [&'static str],
    /// The same as the benchmark ran them: one-sided.
    pub rules_as_run: &'static [&'static str],
}

impl DataSet {
    /// The data set of this name.
    pub fn named(name: &str) -> Option<&'static DataSet> {
        CATALOG.iter().find(|d| d.name == name)
    }
}

const fn plain(
    name: &'static str,
    page: &'static str,
    file: &'static str,
    rows: usize,
    features: usize,
    preparation: &'static str,
) -> DataSet {
    DataSet {
        name,
        source: Source::Uci(page, file),
        rows,
        features,
        preparation,
        rules: &[],
        rules_as_run: &[],
    }
}

/// All data sets, in alphabetical order.
pub const CATALOG: [DataSet; 22] = [
    plain(
        "Adult",
        "adult",
        "adult.data",
        32561,
        14,
        "categories first; sex 0/1; '?' is a category",
    ),
    DataSet {
        name: "BCW",
        source: Source::Uci("breast cancer wisconsin (prognostic)", "wpbc.data"),
        rows: 198,
        features: 32,
        preparation: "identifier and lymph-node column left out; class N 0, R 1",
        rules: &["area_mean == pi * radius_mean^2 +- 9.09%"],
        rules_as_run: &["pi * radius_mean^2 - area_mean < 0.10 * area_mean"],
    },
    DataSet {
        name: "BalanceScale",
        source: Source::Generated,
        rows: 625,
        features: 4,
        preparation: "class L 0, R 1, B 2",
        rules: &[],
        rules_as_run: &[],
    },
    plain(
        "CMSC",
        "climate model simulation crashes",
        "pop_failures.dat",
        540,
        18,
        "study and run number left out",
    ),
    plain(
        "CarEvaluation",
        "car evaluation",
        "car.data",
        1728,
        6,
        "class unacc 0, acc 1, good 2, vgood 3",
    ),
    plain(
        "Chess",
        "chess (king-rook vs. king)",
        "krkopt.data",
        28056,
        6,
        "class draw 0, won 1",
    ),
    plain(
        "DefaultOfCCC",
        "default of credit card clients",
        "default of credit card clients.xls",
        30000,
        23,
        "categories first; SEX 0/1; identifier left out",
    ),
    plain(
        "Ecoli",
        "ecoli",
        "ecoli.data",
        336,
        7,
        "name left out; classes numbered",
    ),
    plain(
        "HayesRoth",
        "hayes-roth",
        "hayes-roth.data",
        132,
        4,
        "name left out",
    ),
    plain(
        "ISOLET",
        "isolet",
        "isolet1+2+3+4.data, isolet5.data",
        7797,
        617,
        "none",
    ),
    DataSet {
        name: "InternetAdv",
        source: Source::Uci("internet advertisements", "ad.data"),
        rows: 2359,
        features: 1558,
        preparation: "rows with '?' left out",
        rules: &["abs(width / height - ratio) < 0.01"],
        rules_as_run: &["round(width / height - ratio, 2) < 0.01"],
    },
    plain(
        "Iris",
        "iris",
        "iris.data",
        150,
        4,
        "class setosa 0, versicolor 1, virginica 3",
    ),
    plain(
        "Lymphography",
        "lymphography",
        "lymphography.data",
        148,
        18,
        "features of two values 0/1",
    ),
    plain(
        "MagicGT",
        "magic gamma telescope",
        "magic04.data",
        19020,
        10,
        "class g 0, h 1",
    ),
    plain(
        "Nursery",
        "nursery",
        "nursery.data",
        12960,
        8,
        "finance 0/1; classes numbered",
    ),
    DataSet {
        name: "PBC",
        source: Source::Uci("page blocks classification", "page-blocks.data"),
        rows: 5473,
        features: 10,
        preparation: "none",
        rules: &[
            "area == height * length +- 0.00005",
            "eccen == length / height +- 0.01",
            "p_black == blackpix / area +- 0.01",
            "p_and == blackand / area +- 0.01",
            "mean_tr == blackpix / wb_trans +- 0.01",
        ],
        rules_as_run: &[
            "round(area, 4) == round(height * length, 4)",
            "round(eccen - length / height, 3) < 0.01",
            "round(p_black - blackpix / area, 3) < 0.01",
            "round(p_and - blackand / area, 3) < 0.01",
            "round(mean_tr - blackpix / wb_trans, 3) < 0.01",
        ],
    },
    plain(
        "SDD",
        "dataset for sensorless drive diagnosis",
        "Sensorless_drive_diagnosis.txt",
        58509,
        48,
        "none",
    ),
    plain(
        "SoybeanSmall",
        "soybean (small)",
        "soybean-small.data",
        47,
        35,
        "features of at most two values 0/1; class D1…D4 0…3",
    ),
    plain(
        "StatlogGC",
        "statlog (german credit data)",
        "german.data",
        1000,
        20,
        "categories first; telephone, foreign worker 0/1; class good 0, bad 1",
    ),
    plain(
        "StudentPerf",
        "student performance",
        "student-por.csv",
        649,
        30,
        "G1, G2 left out; class: G3 above its mean 1; features of two values 0/1",
    ),
    DataSet {
        name: "TicTacToe",
        source: Source::Generated,
        rows: 958,
        features: 9,
        preparation: "class 1: x has won",
        rules: &[],
        rules_as_run: &[],
    },
    plain("Wine", "wine", "wine.data", 178, 13, "none"),
];
