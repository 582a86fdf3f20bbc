//! Bad data: each file or setting gives one clear fault, of the right class, and writes nothing.

use trainer::run::FaultClass::{self, Damaged, Usage};

use crate::support::{Scratch, gzip, idx, parquet, png, table};

/// What is written into the scratch folder.
type Setup = fn(&Scratch);

/// Name, files, `[data]`, class, and texts that the fault must show.
type Case = (
    &'static str,
    Setup,
    &'static str,
    FaultClass,
    &'static [&'static str],
);

const TABLE: &str = "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"";
const WITH_TEST: &str =
    "kind = \"table\"\ntrain = \"@/t.csv\"\ntest = \"@/u.csv\"\nlabel = \"class\"";
const IDX: &str = "kind = \"images\"\nformat = \"idx\"\ntrain = \"@/i\"\ntrain_labels = \"@/l\"";
const FOLDER: &str = "kind = \"images\"\nformat = \"folder\"\ntrain = \"@/f\"";
const TEXT: &str = "kind = \"text\"\ntrain = \"@/t.txt\"\nsequence_length = 8\ncache = \"@/cache\"";
const JSONL: &str =
    "kind = \"text\"\ntrain = \"@/t.jsonl\"\nsequence_length = 8\ncache = \"@/cache\"";

#[rustfmt::skip]
const TABLES: &[Case] = &[
    ("wrong path", |s| s.write("t.csv", table(9)),
        "kind = \"table\"\ntrain = \"@/tt.csv\"\nlabel = \"class\"", Usage, &["tt.csv", "did you mean", "t.csv"]),
    ("wrong folder", |_| {},
        "kind = \"table\"\ntrain = \"@/no/t.csv\"\nlabel = \"class\"", Usage, &["cannot open"]),
    ("a folder", |s| s.write("t.csv/x", ""), TABLE, Usage, &["is a folder"]),
    ("empty file", |s| s.write("t.csv", ""), TABLE, Damaged, &["it is empty"]),
    ("blank file", |s| s.write("t.csv", "\n \n\n"), TABLE, Damaged, &["it is empty"]),
    ("header only", |s| s.write("t.csv", "a,class\n"), TABLE, Damaged, &["no rows"]),
    ("ragged rows", |s| s.write("t.csv", "a,class\n1,x\n2\n3,y,z\n"), TABLE, Damaged,
        &["header has 2 cells, line 3 has 1, line 4 has 3"]),
    ("open quote", |s| s.write("t.csv", "a,class\n\"1,x\n2,y\n"), TABLE, Damaged, &["line 2", "quote"]),
    ("not UTF-8", |s| s.write("t.csv", b"a,class\n1,x\n2,\xe9\n"), TABLE, Damaged, &["line 3 is not UTF-8", "iconv"]),
    ("column twice", |s| s.write("t.csv", "a,a,class\n1,2,x\n"), TABLE, Damaged, &["two columns are named `a`"]),
    ("nameless column", |s| s.write("t.csv", "a,,class\n1,2,x\n"), TABLE, Damaged, &["column 2 has no name"]),
    ("label misspelt", |s| s.write("t.csv", table(9)),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"clas\"", Usage, &["no column `clas`", "did you mean `class`?"]),
    ("ignored column misspelt", |s| s.write("t.csv", table(9)),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"\nignore = [\"agee\"]", Usage,
        &["data.ignore", "did you mean `age`?"]),
    ("wrong separator", |s| s.write("t.csv", table(9).replace(',', ";")), TABLE, Usage, &["no column `class`"]),
    ("text in a number", |s| s.write("t.csv", "a,class\n1,x\nten,y\n"),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"\nnumeric = [\"a\"]", Damaged,
        &["row 2 of t.csv holds `ten` in column `a`", "is no number", "data.missing"]),
    ("infinite number", |s| s.write("t.csv", "a,class\n1,x\n2,y\n-inf,y\n"), TABLE, Damaged,
        &["row 3 of t.csv holds `-inf`", "is not finite"]),
    ("NaN", |s| s.write("t.csv", "a,class\n1,x\nNaN,y\n"),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"\nmissing = []", Damaged,
        &["row 2", "`NaN`", "is not finite"]),
    ("too large a number", |s| s.write("t.csv", "a,class\n1,x\n1e300,y\n"),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"\nstandardize = false", Damaged,
        &["row 2", "1e300", "too large"]),
    ("held-out text in a number", |s| { s.write("t.csv", "a,class\n1,x\n2,y\n"); s.write("u.csv", "a,class\nz,x\n"); },
        WITH_TEST, Damaged, &["row 1 of u.csv", "`z`", "is no number"]),
    ("no label", |s| s.write("t.csv", "a,class\n1,x\n2,?\n"), TABLE, Damaged, &["row 2 of t.csv has no label"]),
    ("no label at all", |s| s.write("t.csv", "a,class\n1,\n2,\n"),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"\ntask = \"classification\"", Damaged,
        &["label column `class`", "no value"]),
    ("unknown class", |s| { s.write("t.csv", "a,class\n1,x\n2,y\n"); s.write("u.csv", "a,class\n1,x\n1,q\n"); },
        WITH_TEST, Damaged, &["row 2 of u.csv has label `q`", "`x`, `y`"]),
    ("held-out column missing", |s| { s.write("t.csv", "ab,class\n1,x\n2,y\n"); s.write("u.csv", "ax,class\n1,x\n"); },
        WITH_TEST, Usage, &["u.csv has no column `ab`"]),
    ("thousands of classes", |s| {
        let rows: Vec<String> = (0..3000).map(|n| format!("{n},name{n}")).collect();
        s.write("t.csv", format!("a,class\n{}\n", rows.join("\n")));
    }, TABLE, Usage, &["3000 different values", "1000 classes", "regression"]),
    ("text as a value", |s| s.write("t.csv", "a,class\n1,x\n2,y\n"),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"\ntask = \"regression\"", Damaged,
        &["row 1 of t.csv holds `x`", "is no number"]),
    ("nothing to learn from", |s| s.write("t.csv", table(9)),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"\nignore = [\"age\", \"colour\"]", Usage,
        &["no column of t.csv is left"]),
    ("empty numeric column", |s| s.write("t.csv", "a,b,class\n,1,x\n,2,y\n"),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"\nnumeric = [\"a\"]", Damaged,
        &["column `a`", "no value in the training rows"]),
    ("nothing left to train on", |s| s.write("t.csv", "a,class\n1,x\n2,y\n"),
        "kind = \"table\"\ntrain = \"@/t.csv\"\nlabel = \"class\"\nvalidation = 0.5\ntest = 0.4", Usage,
        &["leave none to train on"]),
    ("cut gzip", |s| { let bytes = gzip(table(500).as_bytes()); s.write("t.csv", &bytes[..bytes.len() / 2]); },
        TABLE, Damaged, &["gzip data are damaged"]),
    ("gzip with a wrong checksum", |s| {
        let mut bytes = gzip(table(500).as_bytes());
        let place = bytes.len() - 6;
        bytes[place] ^= 1;
        s.write("t.csv", bytes);
    }, TABLE, Damaged, &["gzip data are damaged"]),
    ("gzip bomb", |s| s.write("t.csv", gzip(&vec![b'\n'; 70 << 20])), TABLE, Damaged, &["which no real data do"]),
    ("no Parquet", |s| s.write("t.parquet", table(9)),
        "kind = \"table\"\ntrain = \"@/t.parquet\"\nlabel = \"class\"", Damaged, &["cannot be read as Parquet"]),
    ("cut Parquet", |s| {
        parquet(&s.path("whole"), 50);
        let bytes = std::fs::read(s.path("whole")).unwrap();
        s.write("t.parquet", &bytes[..bytes.len() - 20]);
    }, "kind = \"table\"\ntrain = \"@/t.parquet\"\nlabel = \"c\"", Damaged, &["cannot be read as Parquet"]),
    ("damaged Parquet", |s| {
        parquet(&s.path("whole"), 50);
        let mut bytes = std::fs::read(s.path("whole")).unwrap();
        bytes[4..60].fill(0xff);
        s.write("t.parquet", bytes);
    }, "kind = \"table\"\ntrain = \"@/t.parquet\"\nlabel = \"c\"", Damaged, &["t.parquet"]),
];

#[rustfmt::skip]
const IMAGES: &[Case] = &[
    ("no idx", |s| { s.write("i", "hello world"); s.write("l", idx(&[1], &[0])); }, IDX, Damaged, &["no idx file"]),
    ("idx of floats", |s| { s.write("i", [0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0]); s.write("l", idx(&[1], &[0])); },
        IDX, Damaged, &["type 0x0d"]),
    ("idx cut in its header", |s| { s.write("i", [0, 0, 8, 3, 0, 0]); s.write("l", idx(&[1], &[0])); },
        IDX, Damaged, &["ends within its header"]),
    ("idx shorter than it says", |s| { s.write("i", idx(&[2, 2, 2], &[0; 7])); s.write("l", idx(&[2], &[0, 1])); },
        IDX, Damaged, &["[2, 2, 2]", "7 bytes"]),
    ("idx that claims the moon", |s| {
        s.write("i", idx(&[u32::MAX, u32::MAX, u32::MAX], &[0; 7]));
        s.write("l", idx(&[2], &[0, 1]));
    }, IDX, Damaged, &["do not match"]),
    ("idx without images", |s| { s.write("i", idx(&[0, 2, 2], &[])); s.write("l", idx(&[0], &[])); },
        IDX, Damaged, &["holds no images"]),
    ("labels for images", |s| { s.write("i", idx(&[2], &[0, 1])); s.write("l", idx(&[2], &[0, 1])); },
        IDX, Damaged, &["mixed up"]),
    ("images for labels", |s| { s.write("i", idx(&[1, 1, 1], &[0])); s.write("l", idx(&[1, 1, 1], &[0])); },
        IDX, Damaged, &["labels have rank 1", "mixed up"]),
    ("labels of other images", |s| { s.write("i", idx(&[2, 1, 1], &[0, 1])); s.write("l", idx(&[3], &[0, 1, 2])); },
        IDX, Damaged, &["3 labels", "2 images"]),
    ("held-out label out of range", |s| {
        s.write("i", idx(&[2, 1, 1], &[0, 1]));
        s.write("l", idx(&[2], &[0, 1]));
        s.write("ti", idx(&[1, 1, 1], &[0]));
        s.write("tl", idx(&[1], &[7]));
    }, "kind = \"images\"\nformat = \"idx\"\ntrain = \"@/i\"\ntrain_labels = \"@/l\"\ntest = \"@/ti\"\ntest_labels = \"@/tl\"",
        Damaged, &["image 1 of ti has label 7", "0 to 1"]),
    ("CIFAR of a wrong length", |s| s.write("c.bin", [0; 3000]),
        "kind = \"images\"\nformat = \"cifar10\"\ntrain = \"@/c.bin\"", Damaged, &["3000 bytes", "cifar100"]),
    ("CIFAR label out of range", |s| s.write("c.bin", [11; 3073]),
        "kind = \"images\"\nformat = \"cifar10\"\ntrain = \"@/c.bin\"", Damaged, &["image 1", "out of range"]),
    ("CIFAR folder without files", |s| s.write("c/readme.txt", "x"),
        "kind = \"images\"\nformat = \"cifar100\"\ntrain = \"@/c\"", Usage, &["no `.bin` file"]),
    ("folder without classes", |s| s.write("f/a.png", png(4, 1)), FOLDER, Usage, &["no sub-folders"]),
    ("folder without pictures", |s| s.write("f/cat/notes.txt", "x"), FOLDER, Usage, &["no PNG or JPEG"]),
    ("a file for a folder", |s| s.write("f", "x"), FOLDER, Usage, &["is a file, not a folder"]),
    ("text named png", |s| { s.write("f/cat/a.png", "not a picture"); }, FOLDER, Damaged, &["a.png", "neither a PNG nor a JPEG"]),
    ("empty png", |s| { s.write("f/cat/a.png", png(4, 1)); s.write("f/dog/b.png", ""); }, FOLDER, Damaged, &["b.png", "is empty"]),
    ("cut png", |s| { let bytes = png(40, 1); s.write("f/cat/a.png", &bytes[..bytes.len() - 30]); }, FOLDER, Damaged,
        &["a.png", "cannot be decoded"]),
    ("png that claims the moon", |s| {
        let mut bytes = png(4, 1);
        bytes[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        s.write("f/cat/a.png", bytes);
    }, FOLDER, Damaged, &["a.png"]),
    ("pictures of two sizes", |s| { s.write("f/cat/a.png", png(4, 1)); s.write("f/dog/b.png", png(5, 1)); }, FOLDER, Usage,
        &["differ in size", "data.size"]),
    ("held-out class unknown", |s| { s.write("f/cat/a.png", png(4, 1)); s.write("g/cta/b.png", png(4, 2)); },
        "kind = \"images\"\nformat = \"folder\"\ntrain = \"@/f\"\ntest = \"@/g\"", Usage, &["cta", "no class", "did you mean `cat`?"]),
];

#[rustfmt::skip]
const TEXTS: &[Case] = &[
    ("wrong path", |s| s.write("t.text", "x"), TEXT, Usage, &["t.txt", "did you mean", "t.text"]),
    ("empty folder", |s| s.write("t.txt/.hidden", "x"), TEXT, Usage, &["holds no file"]),
    ("empty file", |s| s.write("t.txt", ""), TEXT, Damaged, &["holds no text"]),
    ("not UTF-8", |s| s.write("t.txt", b"fine\nna\xefve\n"), TEXT, Damaged, &["line 2 is not UTF-8"]),
    ("too short", |s| s.write("t.txt", "abc"), TEXT, Damaged, &["4 tokens", "one sequence of 8"]),
    ("nothing left to train on", |s| s.write("t.txt", "abcdefgh"),
        "kind = \"text\"\ntrain = \"@/t.txt\"\nsequence_length = 8\ncache = \"@/cache\"\nvalidation = 0.2", Usage,
        &["leave none to train on"]),
    ("no JSON", |s| s.write("t.jsonl", "{\"text\": \"a\"}\nhello\n"), JSONL, Damaged, &["line 2 is no JSON"]),
    ("no object", |s| s.write("t.jsonl", "[1]\n"), JSONL, Damaged, &["line 1 is no JSON object"]),
    ("field misspelt", |s| s.write("t.jsonl", "{\"txt\": \"a\"}\n"), JSONL, Damaged, &["no field `text`", "did you mean `txt`?"]),
    ("field of another kind", |s| s.write("t.jsonl", "{\"text\": 3}\n"), JSONL, Damaged, &["is no text"]),
    ("no tokenizer there", |s| s.write("t.txt", "hello hello"),
        "kind = \"text\"\ntrain = \"@/t.txt\"\nsequence_length = 8\ncache = \"@/cache\"\ntokenizer = \"@/tok.json\"", Usage,
        &["tok.json", "\"byte\""]),
    ("no tokenizer in it", |s| { s.write("t.txt", "hello hello"); s.write("tok.json", "{\"a\": 1}"); },
        "kind = \"text\"\ntrain = \"@/t.txt\"\nsequence_length = 8\ncache = \"@/cache\"\ntokenizer = \"@/tok.json\"", Damaged,
        &["tok.json", "no tokenizer.json"]),
];

fn check(cases: &[Case]) {
    for (name, setup, data, class, texts) in cases {
        let scratch = Scratch::new();
        setup(&scratch);
        let Err(fault) = scratch.open_prepared(data, 3) else {
            panic!("{name}: was accepted")
        };
        let shown = fault.render();
        assert_eq!(fault.class, *class, "{name}: {shown}");
        for text in *texts {
            assert!(shown.contains(text), "{name}: `{text}` is not in {shown}");
        }
        assert!(shown.lines().count() <= 5, "{name}: {shown}");
        assert!(shown.len() < 700, "{name}: {shown}");
        assert!(!scratch.path("prepared.json").exists(), "{name}");
    }
}

#[test]
fn bad_tables_give_clear_faults() {
    check(TABLES);
}

#[test]
fn bad_images_give_clear_faults() {
    check(IMAGES);
}

#[test]
fn bad_texts_give_clear_faults() {
    check(TEXTS);
}
