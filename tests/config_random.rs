//! Random configs: what the schema allows, and what nobody would write.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test stops at what it does not expect, and its numbers are small"
)]

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use trainer::config::{self, Config, Diagnostics, Source};

fn parse(text: &str, overrides: &[String]) -> Result<Config, Diagnostics> {
    let source = Source {
        name: "random.toml".to_string(),
        text: text.to_string(),
    };
    config::parse(&source, overrides, &|name| {
        (name.len() == 1).then(|| name.to_string())
    })
}

/// Draws instances of a JSON Schema, as far as ours goes.
struct Sampler {
    state: u64,
}

impl Sampler {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    fn one<'v>(&mut self, list: &'v [Value]) -> &'v Value {
        let index = self.below(list.len());
        &list[index]
    }

    fn sample(&mut self, schema: &Value) -> Value {
        let is_reference = |branch: &Value| {
            !branch["$ref"].is_null() || branch["title"] == "kind from the environment"
        };
        if let Some(value) = schema.get("const") {
            return value.clone();
        }
        if let Some(list) = schema["enum"].as_array() {
            return self.one(list).clone();
        }
        if let Some(list) = schema["examples"].as_array() {
            return self.one(list).clone();
        }
        let alternatives = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        if let Some(list) = alternatives.filter(|_| schema["properties"].is_null()) {
            let list: Vec<Value> = list.iter().filter(|b| !is_reference(b)).cloned().collect();
            let branch = self.one(&list).clone();
            return self.sample(&branch);
        }
        match schema["type"].as_str().unwrap() {
            "boolean" => json!(self.chance(50)),
            "integer" => self.integer(schema),
            "number" => self.number(schema),
            "string" => json!(self.text(schema["minLength"].as_u64().unwrap_or(0))),
            "array" => self.array(schema),
            "object" => self.object(schema),
            other => panic!("{other}"),
        }
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let min = schema["minimum"].as_i64().unwrap();
        let max = schema["maximum"].as_i64().unwrap();
        let whole = max.abs_diff(min);
        let span = if self.chance(80) { 4 } else { whole };
        json!(min.saturating_add_unsigned(self.next() % span.min(whole).saturating_add(1)))
    }

    fn number(&mut self, schema: &Value) -> Value {
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        let min = bound("minimum")
            .or(bound("exclusiveMinimum"))
            .unwrap_or(-5.0);
        let max = bound("maximum")
            .or(bound("exclusiveMaximum"))
            .unwrap_or(1e9);
        let share =
            [0.5, 0.1, 1e-3, 0.7][self.below(4)] * (1.0 - 1e-9 * f64::from(self.below(9) as u32));
        json!(min + (max - min) * share)
    }

    fn text(&mut self, min: u64) -> String {
        const LETTERS: [char; 14] = [
            'a',
            'b',
            'Z',
            '0',
            ' ',
            '"',
            '\\',
            '\'',
            '$',
            '{',
            '}',
            'é',
            '\n',
            '\u{1f600}',
        ];
        let len = min + self.next() % 6;
        let text: String = (0..len)
            .map(|_| LETTERS[self.below(LETTERS.len())])
            .collect();
        // Written as a text that refers to nothing.
        text.replace("${", "$${")
    }

    fn array(&mut self, schema: &Value) -> Value {
        let min = schema["minItems"].as_u64().unwrap();
        let max = schema["maxItems"].as_u64().unwrap();
        let len = min + self.next() % 3.min(max - min + 1);
        Value::Array((0..len).map(|_| self.sample(&schema["items"])).collect())
    }

    fn object(&mut self, schema: &Value) -> Value {
        let mut required: Vec<String> =
            serde_json::from_value(schema.get("required").cloned().unwrap_or(json!([]))).unwrap();
        let mut excluded = Vec::new();
        if let Some(list) = schema["oneOf"].as_array() {
            let chosen = self.below(list.len());
            for (index, branch) in list.iter().enumerate() {
                let keys: Vec<String> = serde_json::from_value(branch["required"].clone()).unwrap();
                if index == chosen {
                    required.extend(keys);
                } else {
                    excluded.extend(keys);
                }
            }
        }
        let mut object = Map::new();
        for (key, value) in schema["properties"].as_object().unwrap() {
            let wanted = required.contains(key) || (!excluded.contains(key) && self.chance(30));
            if wanted {
                object.insert(key.clone(), self.sample(value));
            }
        }
        Value::Object(object)
    }
}

/// A config that fits the schema, with the kind of model that takes the data, as TOML.
fn draw(schema: &Value, seed: u64) -> String {
    let mut sampler = Sampler { state: seed };
    let mut config = sampler.sample(schema);
    let model = match config["data"]["kind"].as_str().unwrap() {
        "table" | "synthetic_table" => "mlp",
        "images" | "synthetic_images" => "resnet",
        _ => "gpt",
    };
    let models = schema["properties"]["model"]["oneOf"].as_array().unwrap();
    if sampler.chance(70) {
        let fitting = models
            .iter()
            .find(|branch| branch["title"] == model)
            .unwrap();
        config["model"] = sampler.sample(fitting);
    }
    let resources = config.get_mut("resources").and_then(Value::as_object_mut);
    if let Some(resources) = resources {
        resources.remove("slots");
        resources.remove("devices");
    }
    toml::to_string(&config).unwrap()
}

/// Faults that the schema should have excluded.
fn of_single_keys(faults: &Diagnostics) -> Vec<String> {
    let messages = faults.reports().into_iter().map(|report| report.message);
    messages
        .filter(|message| {
            message.starts_with("there is no key")
                || message.contains("is missing")
                || message.contains("not valid TOML")
                || (message.starts_with('`') && message.contains("` takes "))
        })
        .collect()
}

#[test]
fn what_the_schema_allows_is_read_and_printed_and_read_again() {
    let schema = config::schema();
    let mut taken = 0;
    for seed in 0..3000 {
        let text = draw(&schema, seed);
        match parse(&text, &[]) {
            Ok(config) => {
                taken += 1;
                let printed = config.to_toml();
                let again = parse(&printed, &[]).unwrap_or_else(|f| panic!("{printed}\n{f}"));
                assert_eq!(again, config, "{printed}");
                assert_eq!(again.sha256(), config.sha256());
                assert_eq!(again.to_toml(), printed);
                assert!(config::difference(&config, &again).is_empty());
            }
            Err(faults) => {
                let wrong = of_single_keys(&faults);
                assert!(wrong.is_empty(), "seed {seed}: {wrong:?}\n{text}");
            }
        }
    }
    assert!(
        taken >= 300,
        "only {taken} of 3000 were free of contradictions"
    );
}

#[test]
fn configs_that_differ_have_other_hashes() {
    let schema = config::schema();
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..500 {
        if let Ok(config) = parse(&draw(&schema, seed), &[]) {
            let other = seen.insert(config.sha256(), config.clone());
            assert!(other.is_none_or(|other| other == config), "seed {seed}");
        }
    }
    let configs: Vec<&Config> = seen.values().collect();
    for pair in configs.windows(2) {
        assert!(!config::difference(pair[0], pair[1]).is_empty());
    }
}

fn valid() -> Vec<String> {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config/valid");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect()
}

/// Reading must end, in a config or in faults that can be shown.
fn survives(text: &str, overrides: &[String]) {
    if let Err(faults) = parse(text, overrides) {
        assert!(faults.len() > 0);
        let shown = faults.render(false);
        assert!(!shown.is_empty());
        // A file cannot steer the terminal it is shown on.
        let steering = shown.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(steering, None, "{shown:?}");
        assert!(!faults.render(true).is_empty());
        assert_eq!(faults.reports().len(), faults.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        survives(&String::from_utf8_lossy(&bytes), &[]);
    }

    #[test]
    fn no_toml_like_text_makes_it_panic(text in "[a-e\\[\\]{}=.,\"'\\\\#$ \n0-9é-]{0,120}") {
        survives(&text, std::slice::from_ref(&text));
    }

    #[test]
    fn no_mutation_makes_it_panic(
        file in any::<prop::sample::Index>(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, ".{0,6}"), 1..4),
    ) {
        let files = valid();
        let mut text: Vec<char> = files[file.index(files.len())].chars().collect();
        for (at, len, put) in cuts {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + len).min(text.len());
            text.splice(at..end, put.chars());
        }
        survives(&text.into_iter().collect::<String>(), &[]);
    }

    #[test]
    fn no_override_makes_it_panic(
        file in any::<prop::sample::Index>(),
        path in "(train|data|model|x)?(\\.(epochs|layers|kind|0|a)){0,3}",
        value in ".{0,12}",
    ) {
        let files = valid();
        survives(&files[file.index(files.len())], &[format!("{path}={value}")]);
    }
}

#[test]
fn sizes_are_bounded() {
    let long = "#".repeat(config::SOURCE_BYTES_MAX + 1);
    assert!(
        parse(&long, &[])
            .unwrap_err()
            .render(false)
            .contains("longer than")
    );
    let deep = format!("{}a = 1\n", "a.".repeat(100_000));
    survives(&deep, &[]);
    let nested = format!("x = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    survives(&nested, &[]);
    let many = (0..20_000).fold(String::new(), |text, n| text + &format!("k{n} = 1\n"));
    assert!(parse(&many, &[]).unwrap_err().len() <= 100);
    let overrides = vec!["train.epochs=1".to_string(); 2000];
    survives("", &overrides);
}
