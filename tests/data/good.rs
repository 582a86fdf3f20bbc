//! Good data: what comes out is what the files hold.

use trainer::data::{
    AugmentKey, Dataset, Input, InputShape, Part, Target, TargetShape, render_summary,
};
use trainer::run::{Epoch, SampleId};

use crate::support::{Scratch, gzip, idx, parquet, png, table};

const ADULT: &str = "kind = \"table\"\ntrain = \"assets/data/adult/train.csv.gz\"\n\
    test = \"assets/data/adult/test.csv.gz\"\nvalidation = 0.1\nlabel = \"income\"\nignore = [\"fnlwgt\"]";
const DIGITS: &str = "kind = \"images\"\nformat = \"idx\"\ntrain = \"assets/data/digits/images-idx3-ubyte.gz\"\n\
    train_labels = \"assets/data/digits/labels-idx1-ubyte.gz\"\nvalidation = 0.1\ntest = 0.2\naugment = { crop_padding = 1 }";

fn ids(range: std::ops::Range<u64>) -> Vec<SampleId> {
    range.map(SampleId::new).collect()
}

fn all(dataset: &Dataset, part: Part) -> (Input, Target) {
    let batch = dataset
        .batch(part, &ids(0..dataset.samples(part)), None)
        .unwrap();
    (batch.input, batch.target)
}

/// Samples by class of a part, in the order of the summary.
fn counts(dataset: &Dataset, part: usize) -> Vec<u64> {
    let classes = &dataset.summary().parts[part].classes;
    classes.iter().map(|class| class.count).collect()
}

#[test]
fn adult_is_read_split_and_standardised() {
    let dataset = Scratch::new().open(ADULT).unwrap();
    assert_eq!(dataset.samples(Part::Train), 29_305);
    assert_eq!(dataset.samples(Part::Validation), 3_256);
    assert_eq!(dataset.samples(Part::Test), 16_281);
    let TargetShape::Classes { names } = dataset.target() else {
        panic!("{:?}", dataset.target())
    };
    assert_eq!(names, &["<=50K", ">50K"]);
    let InputShape::Table {
        numeric,
        categories,
    } = dataset.input()
    else {
        panic!("{:?}", dataset.input())
    };
    // Workclass, education, marital status, occupation, relationship, race, sex, country; each
    // has code 0 beside its values (`?` is missing and no value).
    assert_eq!(
        (*numeric, categories.as_slice()),
        (5, &[9, 17, 8, 15, 7, 6, 3, 42][..])
    );
    let (
        Input::Table {
            numeric,
            categorical,
        },
        Target::Classes(labels),
    ) = all(&dataset, Part::Train)
    else {
        panic!()
    };
    for column in 0..5 {
        let values: Vec<f64> = numeric
            .iter()
            .skip(column)
            .step_by(5)
            .map(|&v| f64::from(v))
            .collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
        assert!(
            mean.abs() < 1e-4 && (square - 1.0).abs() < 1e-3,
            "{column}: {mean} {square}"
        );
    }
    assert!(
        categorical
            .chunks(8)
            .all(|row| row.iter().zip(categories).all(|(&c, &n)| (c as usize) < n))
    );
    let counts = |part| counts(&dataset, part);
    assert_eq!(counts(2), [12_435, 3_846]);
    assert_eq!(counts(0)[1] + counts(1)[1], 7_841);
    assert_eq!(
        counts(0)[1],
        labels.iter().filter(|&&label| label == 1).count() as u64
    );
    assert!(
        dataset
            .sample_name(Part::Test, SampleId::new(16))
            .contains("row 17 of test.csv.gz")
    );
    let screen = render_summary(dataset.summary());
    assert!(screen.lines().count() <= 24, "{screen}");
    assert!(screen.contains("workclass"), "{screen}");
}

#[test]
fn digits_are_read_and_normalised() {
    let dataset = Scratch::new().open(DIGITS).unwrap();
    let counts: Vec<u64> = Part::ALL
        .iter()
        .map(|&part| dataset.samples(part))
        .collect();
    assert_eq!(counts, [1258, 180, 359]);
    assert_eq!(
        dataset.input(),
        &InputShape::Image {
            channels: 1,
            height: 8,
            width: 8
        }
    );
    let (Input::Images { pixels }, Target::Classes(labels)) = all(&dataset, Part::Train) else {
        panic!()
    };
    assert_eq!((pixels.len(), labels.len()), (1258 * 64, 1258));
    let mean = pixels.iter().map(|&v| f64::from(v)).sum::<f64>() / pixels.len() as f64;
    let square = pixels.iter().map(|&v| f64::from(v * v)).sum::<f64>() / pixels.len() as f64;
    assert!(
        mean.abs() < 1e-4 && (square - 1.0).abs() < 1e-3,
        "{mean} {square}"
    );
    let total: u64 = dataset
        .summary()
        .parts
        .iter()
        .flat_map(|part| &part.classes)
        .map(|class| class.count)
        .sum();
    assert_eq!(total, 1797);
    assert_eq!(dataset.summary().parts[0].classes.len(), 10);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    for data in [ADULT, DIGITS] {
        let open = |threads| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let dataset = pool.install(|| Scratch::new().open(data).unwrap());
            (
                dataset.summary().fingerprint.clone(),
                all(&dataset, Part::Train),
                all(&dataset, Part::Test),
            )
        };
        assert!(open(1) == open(3), "{data}");
    }
}

#[test]
fn images_augment_by_seed_epoch_and_sample_alone() {
    let dataset = Scratch::new().open(DIGITS).unwrap();
    let batch = |places: &[u64], epoch| {
        let ids: Vec<SampleId> = places.iter().map(|&place| SampleId::new(place)).collect();
        let key = AugmentKey {
            seed: 3,
            epoch: Epoch::new(epoch),
        };
        match dataset.batch(Part::Train, &ids, Some(key)).unwrap().input {
            Input::Images { pixels } => pixels,
            other => panic!("{other:?}"),
        }
    };
    let whole = batch(&[5, 6, 7, 8], 2);
    assert_eq!(whole[64..128], batch(&[6], 2)[..]);
    assert_ne!(whole, batch(&[5, 6, 7, 8], 3));
    assert!(dataset.batch(Part::Train, &ids(1258..1259), None).is_err());
}

#[test]
fn traps_of_tables_are_handled() {
    let scratch = Scratch::new();
    scratch.write(
        "t.tsv.gz",
        gzip(b"a\tb \tid\tclass\n 1\tx\t11\tno\n2\t?\t12\tyes\n?\ty\t13\tno\n\n\n"),
    );
    scratch.write("u.tsv", "class\tb\ta\tid\nyes.\tq\t3\t1\nno.\tx\t?\t2\n");
    let data = "kind = \"table\"\ntrain = \"@/t.tsv.gz\"\ntest = \"@/u.tsv\"\nlabel = \"class\"\n\
                ignore = [\"id\"]\nstandardize = false";
    let dataset = scratch.open(data).unwrap();
    let (
        Input::Table {
            numeric,
            categorical,
        },
        Target::Classes(labels),
    ) = all(&dataset, Part::Train)
    else {
        panic!()
    };
    // The missing number is the mean; the missing category is code 0.
    assert_eq!(numeric, [1.0, 2.0, 1.5]);
    assert_eq!(categorical, [1, 0, 2]);
    assert_eq!(labels, [0, 1, 0]);
    let (
        Input::Table {
            numeric,
            categorical,
        },
        Target::Classes(labels),
    ) = all(&dataset, Part::Test)
    else {
        panic!()
    };
    assert_eq!(
        (numeric, categorical, labels),
        (vec![3.0, 1.5], vec![0, 1], vec![1, 0])
    );
    let screen = render_summary(dataset.summary());
    for text in ["a 1, b 1", "unknown in test", "2 labels", "not used"] {
        assert!(screen.contains(text), "{text}: {screen}");
    }
}

#[test]
fn same_rows_and_odd_columns_are_warned_of() {
    let scratch = Scratch::new();
    let rows: Vec<String> = (0..40)
        .map(|n| format!("{n},1,c{},{}", n % 2, n % 2))
        .collect();
    scratch.write("t.csv", format!("a,same,b,class\n{}\n", rows.join("\n")));
    scratch.write("u.csv", "a,same,b,class\n3,1,c1,1\n99,1,c1,1\n4,1,c0,0\n");
    let data = "kind = \"table\"\ntrain = \"@/t.csv\"\nvalidation = \"@/u.csv\"\nlabel = \"class\"";
    let warnings = scratch.open(data).unwrap().summary().warnings.join("\n");
    assert!(warnings.contains("2 of 3 rows in valid"), "{warnings}");
    assert!(
        warnings.contains("column `same` has one value"),
        "{warnings}"
    );
}

#[test]
fn parquet_cells_keep_their_kinds() {
    let scratch = Scratch::new();
    parquet(&scratch.path("t.parquet"), 23);
    let data = "kind = \"table\"\ntrain = \"@/t.parquet\"\nlabel = \"flag\"\nstandardize = false";
    let dataset = scratch.open(data).unwrap();
    let (
        Input::Table {
            numeric,
            categorical,
        },
        Target::Classes(labels),
    ) = all(&dataset, Part::Train)
    else {
        panic!()
    };
    assert_eq!(
        labels,
        (0..23)
            .map(|row| i32::from(row % 3 == 0))
            .collect::<Vec<_>>()
    );
    let mean = (0..23)
        .filter(|row| row % 5 != 0)
        .map(|row| f64::from(row) / 2.0)
        .sum::<f64>()
        / 18.0;
    for row in 0..23u8 {
        let x = if row % 5 == 0 {
            mean as f32
        } else {
            f32::from(row) / 2.0
        };
        let at = usize::from(row);
        assert_eq!(numeric[2 * at..2 * at + 2], [f32::from(row), x], "{row}");
        let code = if row % 5 == 0 {
            0
        } else {
            1 + i32::from(row % 2)
        };
        assert_eq!(categorical[at], code, "{row}");
    }
    let value = scratch.open(
        &data
            .replace("flag", "x")
            .replace("parquet\"", "parquet\"\ntask = \"regression\""),
    );
    assert!(
        value
            .unwrap_err()
            .message
            .contains("row 1 of t.parquet has no label")
    );
    let value = scratch
        .open(&data.replace("\"flag\"", "\"n\"\ntask = \"regression\""))
        .unwrap();
    assert_eq!(
        value.target(),
        &TargetShape::Value {
            mean: 11.0,
            std: 44f64.sqrt()
        }
    );
}

#[test]
fn folders_are_read_resized_and_named() {
    let scratch = Scratch::new();
    for shade in 0..6 {
        scratch.write(&format!("f/dog/{shade}.PNG"), png(6, shade));
        scratch.write(&format!("f/cat/{shade}.png"), png(8, 100 + shade));
    }
    scratch.write("f/cat/.thumbs", "x");
    scratch.write("g/cat/same.png", png(8, 103));
    let data = "kind = \"images\"\nformat = \"folder\"\ntrain = \"@/f\"\ntest = \"@/g\"\nsize = [4, 4]\nnormalize = \"none\"";
    let dataset = scratch.open(data).unwrap();
    assert_eq!(
        dataset.input(),
        &InputShape::Image {
            channels: 3,
            height: 4,
            width: 4
        }
    );
    assert_eq!(
        dataset.target(),
        &TargetShape::Classes {
            names: vec!["cat".into(), "dog".into()]
        }
    );
    let (Input::Images { pixels }, Target::Classes(labels)) = all(&dataset, Part::Train) else {
        panic!()
    };
    assert_eq!(labels, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
    // The last pixel of the red plane of the first picture is far from the odd one.
    assert!((pixels[15] - 100.0 / 255.0).abs() < 1e-6, "{}", pixels[15]);
    assert!(
        dataset
            .sample_name(Part::Train, SampleId::new(7))
            .ends_with("dog/1.PNG")
    );
    let warnings = dataset.summary().warnings.join("\n");
    assert!(warnings.contains("1 of 1 images in test"), "{warnings}");
}

#[test]
fn classes_without_training_images_are_warned_of() {
    let scratch = Scratch::new();
    scratch.write("i", idx(&[3, 1, 2], &[1, 2, 3, 4, 5, 6]));
    scratch.write("l", idx(&[3], &[0, 3, 3]));
    let data = "kind = \"images\"\nformat = \"idx\"\ntrain = \"@/i\"\ntrain_labels = \"@/l\"";
    let dataset = scratch.open(data).unwrap();
    assert!(
        dataset.summary().warnings[0].contains("`1`, `2`"),
        "{:?}",
        dataset.summary().warnings
    );
}

#[test]
fn text_becomes_windows_that_do_not_cross_parts() {
    let scratch = Scratch::new();
    let text: String = (0..4000u32)
        .map(|n| char::from(b'a' + (n * n % 23) as u8))
        .collect();
    scratch.write("t.txt", &text);
    let data = "kind = \"text\"\ntrain = \"@/t.txt\"\nvalidation = 0.1\ntest = 0.1\nsequence_length = 10\ncache = \"@/cache\"";
    let dataset = scratch.open(data).unwrap();
    assert_eq!(
        dataset.input(),
        &InputShape::Tokens {
            length: 10,
            vocabulary: 257
        }
    );
    let stream: Vec<i32> = text.bytes().map(i32::from).chain([256]).collect();
    let mut starts = Vec::new();
    let mut owner = vec![None; 400];
    for part in Part::ALL {
        for id in ids(0..dataset.samples(part)) {
            let name = dataset.sample_name(part, id);
            let start: usize = name.split(' ').nth(1).unwrap().parse().unwrap();
            owner[start / 10] = Some(part);
            starts.push((part, id, start));
        }
    }
    assert!(owner.iter().all(Option::is_some));
    assert_eq!(starts.len(), 400);
    for (part, id, start) in starts {
        let batch = dataset.batch(part, &[id], None).unwrap();
        let (Input::Tokens { ids }, Target::Tokens(targets)) = (batch.input, batch.target) else {
            panic!()
        };
        assert_eq!(ids, stream[start..start + 10]);
        assert_eq!(targets[..9], stream[start + 1..start + 10]);
        let ours = owner
            .get(start / 10 + 1)
            .is_none_or(|next| *next == Some(part));
        let expected = if ours { stream[start + 10] } else { -1 };
        assert_eq!(targets[9], expected, "window at {start}");
    }
    // The cache is used, and made anew when it is damaged.
    let cached = std::fs::read_dir(scratch.path("cache"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let whole = std::fs::read(&cached).unwrap();
    let mut damaged = whole.clone();
    damaged[500] ^= 1;
    // A new file: the old one is still mapped.
    std::fs::remove_file(&cached).unwrap();
    std::fs::write(&cached, damaged).unwrap();
    let again = scratch.open(data).unwrap();
    assert_eq!(all(&again, Part::Train), all(&dataset, Part::Train));
    assert_eq!(std::fs::read(&cached).unwrap(), whole);
    let warnings = again.summary().warnings.join("\n");
    assert!(warnings.contains("was made anew"), "{warnings}");
}

#[test]
fn the_seed_chooses_what_is_held_out() {
    let scratch = Scratch::new();
    scratch.write("t.csv", table(200));
    let data = "kind = \"table\"\ntrain = \"@/t.csv\"\nvalidation = 0.3\nlabel = \"class\"";
    let open = |seed| Dataset::open(&scratch.config(data).data, seed, None).unwrap();
    let names = |dataset: &Dataset| -> Vec<String> {
        ids(0..60)
            .into_iter()
            .map(|id| dataset.sample_name(Part::Validation, id))
            .collect()
    };
    assert_eq!(names(&open(1)), names(&open(1)));
    assert_ne!(names(&open(1)), names(&open(2)));
    assert_ne!(open(1).summary().fingerprint, open(2).summary().fingerprint);
}
