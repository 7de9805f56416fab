//! Facts about the built-in kinds: resources as discovery lists them, types with their fields, protobuf field numbers.
//!
//! `cmd/sandbox/generate` writes the text files of this folder from the sources of one Kubernetes release, and its README
//! describes their format. Each file is parsed on first use.

use std::collections::BTreeMap;
use std::sync::LazyLock;

static RESOURCES: LazyLock<Vec<Resource>> = LazyLock::new(|| parse_resources(include_str!("resources.txt")));
static TYPES: LazyLock<BTreeMap<&'static str, Type>> =
    LazyLock::new(|| parse_types(include_str!("types.txt")));
static NUMBERS: LazyLock<BTreeMap<&'static str, Vec<(u32, &'static str)>>> =
    LazyLock::new(|| parse_numbers(include_str!("protobuf.txt")));

/// One resource of one API version.
#[derive(Debug)]
pub(crate) struct Resource {
    /// API group, empty for core.
    pub(crate) group: &'static str,
    /// API version, such as `v1`.
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) short_names: Vec<&'static str>,
    pub(crate) categories: Vec<&'static str>,
    pub(crate) verbs: Vec<&'static str>,
    pub(crate) subresources: Vec<Subresource>,
}

/// One subresource of a resource.
#[derive(Debug)]
pub(crate) struct Subresource {
    pub(crate) name: &'static str,
    pub(crate) verbs: Vec<&'static str>,
    /// Group, version and kind of the request and response bodies.
    pub(crate) kind: [&'static str; 3],
}

/// One type of the API.
#[derive(Debug)]
pub(crate) struct Type {
    /// The full name, such as `io.k8s.api.core.v1.PodSpec`.
    pub(crate) name: &'static str,
    /// Group, version and kind, if objects of the type carry `apiVersion` and `kind`.
    pub(crate) kind: Option<[&'static str; 3]>,
    /// Server-side apply treats an object of the type as one value (`x-kubernetes-map-type: atomic`).
    pub(crate) atomic: bool,
    /// The form of a type without fields, such as `time`.
    pub(crate) alias: Option<&'static str>,
    /// Sorted by name.
    pub(crate) fields: Vec<Field>,
}

/// One field of a type.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)]
pub struct Field {
    /// The JSON name.
    pub(crate) name: &'static str,
    /// `string`, `[]string`, `{}core.v1.Container` and so on.
    pub(crate) ty: &'static str,
    pub(crate) required: bool,
    /// An optional scalar whose zero value differs from an absent field: a pointer, or without `omitempty`.
    pub(crate) keeps_zero: bool,
    /// The server writes the field even if it is not set.
    pub(crate) shown: bool,
    /// `atomic`, `granular`, `set` or `map`; empty if the API does not say.
    pub(crate) merge_type: &'static str,
    /// Keys of a list of merge type `map`.
    pub(crate) map_keys: Vec<&'static str>,
    /// Strategies of strategic merge patch, separated by commas.
    pub(crate) patch_strategy: &'static str,
    pub(crate) patch_merge_key: &'static str,
    /// A default other than the zero value, as JSON.
    pub(crate) default: Option<&'static str>,
}

/// Every resource, in the order of discovery.
pub(crate) fn resources() -> &'static [Resource] {
    &RESOURCES
}

/// The resource of a group, version and plural name.
pub(crate) fn resource(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    let matches = |r: &&Resource| (r.group, r.version, r.plural) == (group, version, plural);
    RESOURCES.iter().find(matches)
}

/// Every type by its short name, such as `core.v1.PodSpec`.
pub(crate) fn types() -> &'static BTreeMap<&'static str, Type> {
    &TYPES
}

/// The JSON name of a protobuf field. A name with the prefix `=` is that of a message whose fields JSON shows inline.
pub(crate) fn field_name(short_name: &str, number: u32) -> Option<&'static str> {
    let numbers = NUMBERS.get(short_name)?;
    numbers.iter().find(|(n, _)| *n == number).map(|(_, name)| *name)
}

/// The last three parts of the full name of a type, which are unique.
pub(crate) fn short_name(name: &str) -> &str {
    name.rmatch_indices('.')
        .nth(2)
        .map_or(name, |(at, _)| name.get(at + 1..).unwrap_or(name))
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

fn list(text: &'static str) -> Vec<&'static str> {
    text.split(',')
        .filter(|item| !matches!(*item, "" | "-"))
        .collect()
}

fn split_api_version(text: &'static str) -> (&'static str, &'static str) {
    text.split_once('/').unwrap_or(("", text))
}

fn parse_resources(text: &'static str) -> Vec<Resource> {
    let mut resources: Vec<Resource> = Vec::new();
    for line in lines(text) {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_default();
        if line.starts_with(' ') {
            let (name, verbs) = (word(), list(word()));
            let (group, version) = split_api_version(word());
            let kind = [group, version, word()];
            if let Some(resource) = resources.last_mut() {
                resource.subresources.push(Subresource { name, verbs, kind });
            }
        } else {
            let (group, version) = split_api_version(word());
            resources.push(Resource {
                group,
                version,
                kind: word(),
                plural: word(),
                singular: word(),
                namespaced: word() == "namespaced",
                short_names: list(word()),
                categories: list(word()),
                verbs: list(word()),
                subresources: Vec::new(),
            });
        }
    }
    resources
}

fn parse_types(text: &'static str) -> BTreeMap<&'static str, Type> {
    let mut types: Vec<Type> = Vec::new();
    for line in lines(text) {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        if line.starts_with(' ') {
            if let Some(last) = types.last_mut() {
                last.fields.push(parse_field(name, words));
            }
            continue;
        }
        let mut ty = Type {
            name,
            kind: None,
            atomic: false,
            alias: line.split_once(" = ").map(|(_, alias)| alias),
            fields: Vec::new(),
        };
        for word in words {
            if let Some((api_version, kind)) = word.strip_prefix("kind:").and_then(|k| k.split_once(':')) {
                let (group, version) = split_api_version(api_version);
                ty.kind = Some([group, version, kind]);
            }
            ty.atomic |= word == "atomic";
        }
        types.push(ty);
    }
    types.into_iter().map(|ty| (short_name(ty.name), ty)).collect()
}

fn parse_field(name: &'static str, mut words: impl Iterator<Item = &'static str>) -> Field {
    let mut field = Field {
        name,
        ty: words.next().unwrap_or_default(),
        ..Field::default()
    };
    for word in words {
        let (word, rest) = word.split_once(':').unwrap_or((word, ""));
        match word {
            "required" => field.required = true,
            "keep" => field.keeps_zero = true,
            "show" => field.shown = true,
            "default" => field.default = Some(rest),
            "patch" => {
                (field.patch_strategy, field.patch_merge_key) = rest.split_once(':').unwrap_or((rest, ""));
            }
            merge_type => (field.merge_type, field.map_keys) = (merge_type, list(rest)),
        }
    }
    field
}

fn parse_numbers(text: &'static str) -> BTreeMap<&'static str, Vec<(u32, &'static str)>> {
    let numbered = |field: &'static str| {
        let (number, name) = field.split_once(':')?;
        Some((number.parse().ok()?, name))
    };
    lines(text)
        .filter_map(|line| {
            let (name, fields) = line.split_once(' ')?;
            Some((name, fields.split(' ').filter_map(numbered).collect()))
        })
        .collect()
}
