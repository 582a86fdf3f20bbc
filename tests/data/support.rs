//! Scratch folders with data files, and configs for them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int32Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;
use trainer::config::{Config, Source, parse};
use trainer::data::Dataset;
use trainer::run::Fault;

/// A scratch folder; paths in configs that begin with `@/` are inside it.
pub(crate) struct Scratch {
    folder: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, with its folders.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// A whole config around a `[data]` section.
    pub(crate) fn config(&self, data: &str) -> Config {
        let model = if data.contains("\"table\"") {
            "kind = \"mlp\"\nhidden = [4]"
        } else if data.contains("\"images\"") {
            "kind = \"resnet\"\ndepth = 8"
        } else {
            "kind = \"gpt\"\nlayers = 1\nwidth = 8\nheads = 1"
        };
        let data = data.replace("@/", &format!("{}/", self.folder.path().display()));
        let text = format!(
            "name = \"t\"\nseed = 3\n[data]\n{data}\n[model]\n{model}\n[train]\nepochs = 3\n\
             global_batch = 8\nshards = 3\n[optimizer]\nkind = \"adamw\"\nlearning_rate = 1e-3\n"
        );
        let source = Source {
            name: "t.toml".into(),
            text,
        };
        match parse(&source, &[], &|_| None) {
            Ok(config) => config,
            Err(diagnostics) => panic!("{}", diagnostics.render(false)),
        }
    }

    pub(crate) fn open(&self, data: &str) -> Result<Dataset, Fault> {
        Dataset::open(&self.config(data).data, 3, None)
    }

    /// Opens with `prepared.json` in the scratch folder.
    pub(crate) fn open_prepared(&self, data: &str, seed: u64) -> Result<Dataset, Fault> {
        let place = self.path("prepared.json");
        Dataset::open(&self.config(data).data, seed, Some(&place))
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// An idx file of bytes.
pub(crate) fn idx(sizes: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0, 0, 8, u8::try_from(sizes.len()).unwrap()];
    for size in sizes {
        out.extend(size.to_be_bytes());
    }
    out.extend(bytes);
    out
}

/// A small CSV table with two classes, a numeric and a categorical column.
pub(crate) fn table(rows: usize) -> String {
    let mut lines = vec!["age,colour,class".to_string()];
    for row in 0..rows {
        let colour = ["red", "green", "blue"][row % 3];
        let class = if row % 4 == 0 { "yes" } else { "no" };
        lines.push(format!("{},{colour},{class}", row * 7 % 31));
    }
    lines.join("\n") + "\n"
}

/// A PNG picture in one colour with one odd pixel.
pub(crate) fn png(side: u32, shade: u8) -> Vec<u8> {
    let mut picture = image::RgbImage::from_pixel(side, side, image::Rgb([shade, 10, 200]));
    picture.put_pixel(0, 0, image::Rgb([0, 255, shade]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture
        .write_to(&mut bytes, image::ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

/// A Parquet file with the columns `n` (integer), `x` (number with nulls), `c` (text with nulls)
/// and `flag` (truth value), in row groups of 4 rows.
pub(crate) fn parquet(path: &Path, rows: usize) {
    let schema = "message t { required int32 n; optional double x; optional binary c (UTF8); required boolean flag; }";
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let file = std::fs::File::create(path).unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
    let all: Vec<usize> = (0..rows).collect();
    for group in all.chunks(4) {
        let mut out = writer.next_row_group().unwrap();
        let number: Vec<i32> = group
            .iter()
            .map(|&row| i32::try_from(row).unwrap())
            .collect();
        let mut column = out.next_column().unwrap().unwrap();
        column
            .typed::<Int32Type>()
            .write_batch(&number, None, None)
            .unwrap();
        column.close().unwrap();
        let present: Vec<i16> = group.iter().map(|row| i16::from(row % 5 != 0)).collect();
        let kept = || group.iter().filter(|&row| row % 5 != 0);
        let numbers: Vec<f64> = kept().map(|&row| row as f64 / 2.0).collect();
        let mut column = out.next_column().unwrap().unwrap();
        column
            .typed::<DoubleType>()
            .write_batch(&numbers, Some(&present), None)
            .unwrap();
        column.close().unwrap();
        let texts: Vec<ByteArray> = kept()
            .map(|row| ByteArray::from(["ab", "cd"][row % 2]))
            .collect();
        let mut column = out.next_column().unwrap().unwrap();
        column
            .typed::<ByteArrayType>()
            .write_batch(&texts, Some(&present), None)
            .unwrap();
        column.close().unwrap();
        let flags: Vec<bool> = group.iter().map(|row| row % 3 == 0).collect();
        let mut column = out.next_column().unwrap().unwrap();
        column
            .typed::<BoolType>()
            .write_batch(&flags, None, None)
            .unwrap();
        column.close().unwrap();
        out.close().unwrap();
    }
    writer.close().unwrap();
}
