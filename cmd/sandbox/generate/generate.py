#!/usr/bin/env python3
"""Writes the facts of the built-in kinds to ../src/generated.

Reads a Kubernetes source tree: discovery documents, OpenAPI v3 documents and the Go types. README.md has the details.
"""

import argparse
import hashlib
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTPUT = HERE.parent / "src" / "generated"
CHECKSUMS = HERE / "inputs.sha256"

STABLE = re.compile(r"v\d+")
# Resources that the sandbox does not serve; DIFFERENCES.md gives the reasons.
OMITTED = {("autoscaling", "v1", "horizontalpodautoscalers"), ("", "v1", "bindings")}
# Types of request and response bodies that are not a resource.
BODIES = [
    "io.k8s.api.authentication.v1.TokenRequest",
    "io.k8s.api.autoscaling.v1.Scale",
    "io.k8s.api.core.v1.Binding",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
]
CRD = "apiextensions.v1"
# Types that marshal themselves: OpenAPI does not describe their JSON form completely.
SPECIAL = {
    "api.resource.Quantity": "quantity",
    "util.intstr.IntOrString": "int-or-string",
    "meta.v1.Time": "time",
    "meta.v1.MicroTime": "micro-time",
    f"{CRD}.JSON": "any",
    f"{CRD}.JSONSchemaPropsOrArray": f"{CRD}.JSONSchemaProps|[]{CRD}.JSONSchemaProps",
    f"{CRD}.JSONSchemaPropsOrBool": f"{CRD}.JSONSchemaProps|boolean",
    f"{CRD}.JSONSchemaPropsOrStringArray": f"{CRD}.JSONSchemaProps|[]string",
}
SCALARS = {
    ("string", None): "string",
    ("string", "byte"): "bytes",
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "number",
    ("boolean", None): "boolean",
}
# Directories of Go types outside of k8s.io/api, by the first two parts of the short name.
GO_PACKAGES = {
    "meta.v1": "apimachinery/pkg/apis/meta/v1",
    "apiextensions.v1": "apiextensions-apiserver/pkg/apis/apiextensions/v1",
    "apiregistration.v1": "kube-aggregator/pkg/apis/apiregistration/v1",
}
GO_IMPORTS = {"metav1": "meta.v1", "v1": "core.v1", "corev1": "core.v1"}
GO_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.M | re.S)
GO_FIELD = re.compile(r"^\t(?:(\w+)[ \t]+)?([\w.*\[\]]+)[ \t]+`([^`]*)`", re.M)


class Inputs:
    """A source tree that records the files it has read."""

    def __init__(self, root):
        self.root = root
        self.digests = {}

    def text(self, path):
        data = (self.root / path).read_bytes()
        self.digests[path] = hashlib.sha256(data).hexdigest()
        return data.decode()

    def json(self, path):
        return json.loads(self.text(path))

    def checksums(self):
        return "".join(f"{digest}  {path}\n" for path, digest in sorted(self.digests.items()))


def group_versions(inputs):
    """Stable versions in the order of discovery, core first."""
    yield "", "v1"
    for group in inputs.json("api/discovery/apis.json")["groups"]:
        for version in group["versions"]:
            if STABLE.fullmatch(version["version"]):
                yield group["name"], version["version"]


def document(group, version):
    return f"apis__{group}__{version}" if group else f"api__{version}"


def resource_lines(inputs):
    """One line for each resource, then one for each of its subresources."""
    for group, version in group_versions(inputs):
        for entry in inputs.json(f"api/discovery/{document(group, version)}.json")["resources"]:
            plural, _, subresource = entry["name"].partition("/")
            if (group, version, plural) in OMITTED:
                continue
            verbs = ",".join(entry["verbs"])
            if subresource:
                kind = [entry.get("group", group), entry.get("version", version), entry["kind"]]
                yield f"  {subresource} {verbs} {api_version(*kind[:2])} {kind[2]}"
                continue
            scope = "namespaced" if entry["namespaced"] else "cluster"
            names = [",".join(entry.get(key, [])) or "-" for key in ("shortNames", "categories")]
            singular = entry["singularName"] or entry["kind"].lower()
            words = [api_version(group, version), entry["kind"], plural, singular, scope, *names, verbs]
            yield " ".join(words)


def api_version(group, version):
    return f"{group}/{version}" if group else version


def short(name):
    """The last three parts of the name of a type."""
    return ".".join(name.split(".")[-3:])


def token(schema):
    """The type of a place."""
    reference = schema.get("$ref") or (schema.get("allOf") or [{}])[0].get("$ref")
    if reference:
        return short(reference)
    kind = schema.get("type")
    if kind == "array":
        return "[]" + token(schema["items"])
    if kind == "object":
        values = schema.get("additionalProperties")
        return "{}" + token(values) if values else "object"
    return SCALARS[kind, schema.get("format")] if kind else "any"


def references(text):
    return re.findall(r"[\w-]+\.[\w-]+\.\w+", text)


def go_structs(inputs, package):
    """The fields of each struct of a package: Go type, JSON tag, protobuf number."""
    path = GO_PACKAGES.get(package) or "api/" + package.replace(".", "/")
    structs = {}
    for file in sorted((inputs.root / "staging/src/k8s.io" / path).glob("*types*.go")):
        text = inputs.text(str(file.relative_to(inputs.root)))
        if file.name.endswith("_test.go"):
            continue
        for name, body in GO_STRUCT.findall(text):
            fields = []
            for _, kind, tags in GO_FIELD.findall(body):
                tags = dict(re.findall(r'(\w+):"([^"]*)"', tags))
                json_name, *options = tags.get("json", "-").split(",")
                number = tags.get("protobuf", ",-").split(",")[1]
                fields.append((kind, json_name, options, number))
            structs[name] = fields
    return structs


class Types:
    def __init__(self, inputs):
        self.inputs = inputs
        self.schemas = {}
        self.packages = {}
        roots = list(BODIES)
        served = {line.split()[0] + " " + line.split()[1] for line in resource_lines(inputs) if line[0] != " "}
        for group, version in group_versions(inputs):
            path = f"api/openapi-spec/v3/{document(group, version)}_openapi.json"
            for name, schema in inputs.json(path)["components"]["schemas"].items():
                self.schemas.setdefault(short(name), (name, schema))
                for gvk in schema.get("x-kubernetes-group-version-kind", []):
                    kind = f"{api_version(gvk['group'], gvk['version'])} {gvk['kind']}"
                    if kind in served or kind.removesuffix("List") in served:
                        roots.append(name)
        self.names = self.closure({short(name) for name in roots})

    def closure(self, names):
        done, todo = set(), list(names)
        while todo:
            name = todo.pop()
            if name in done:
                continue
            done.add(name)
            schema = self.schemas[name][1]
            todo += references(SPECIAL.get(name, ""))
            for place in schema.get("properties", {}).values():
                todo += references(token(place))
        return sorted(done)

    def structs(self, package):
        if package not in self.packages:
            self.packages[package] = go_structs(self.inputs, package)
        return self.packages[package]

    def go_fields(self, name):
        """The fields of a type by their JSON name, with those of embedded structs."""
        package, _, struct = name.rpartition(".")
        fields = {}
        for kind, json_name, options, number in self.structs(package).get(struct, []):
            if "inline" in options or json_name == "":
                fields.update(self.go_fields(self.embedded(package, kind)))
            elif json_name != "-":
                fields[json_name] = (kind, options)
        return fields

    @staticmethod
    def embedded(package, kind):
        alias, _, struct = kind.lstrip("*").rpartition(".")
        return f"{GO_IMPORTS[alias] if alias else package}.{struct}"

    def is_struct(self, text):
        if text in SPECIAL:
            return text.startswith("meta.v1.")
        return text in self.schemas and "properties" in self.schemas[text][1]

    def type_lines(self):
        for name in self.names:
            full, schema = self.schemas[name]
            if "properties" not in schema:
                yield f"{full} = {SPECIAL.get(name) or token(schema)}"
                continue
            words = [full]
            for gvk in schema.get("x-kubernetes-group-version-kind", [])[:1]:
                if name != "meta.v1.DeleteOptions":
                    words.append(f"kind:{api_version(gvk['group'], gvk['version'])}:{gvk['kind']}")
            if schema.get("x-kubernetes-map-type") == "atomic":
                words.append("atomic")
            yield " ".join(words)
            go = self.go_fields(name)
            for field, place in sorted(schema["properties"].items()):
                required = field in schema.get("required", [])
                yield "  " + " ".join(self.field_words(field, place, required, go.get(field)))

    def field_words(self, field, place, required, go):
        text = token(place)
        yield field
        yield text
        if required:
            yield "required"
        if go:
            kind, options = go
            pointer, omitted = kind.startswith("*"), "omitempty" in options
            scalar = text in SCALARS.values()
            if scalar and not required and (pointer or not omitted):
                yield "keep"
            if not pointer and "omitzero" not in options and (self.is_struct(text) or not omitted):
                yield "show"
        kind = place.get("x-kubernetes-list-type") or place.get("x-kubernetes-map-type")
        keys = place.get("x-kubernetes-list-map-keys", [])
        if kind:
            yield ":".join([kind, ",".join(sorted(keys))]) if keys else kind
        strategy = place.get("x-kubernetes-patch-strategy")
        if strategy:
            yield f"patch:{strategy}:{place.get('x-kubernetes-patch-merge-key', '')}"
        if place.get("default") not in (None, {}, "", 0, False):
            yield "default:" + json.dumps(place["default"])

    def number_lines(self):
        """The protobuf numbers of the fields of each type; `=` marks a struct that JSON shows inline."""
        todo, done = [name for name in self.names if not name.endswith("List")], {}
        while todo:
            name = todo.pop()
            package, _, struct = name.rpartition(".")
            if name in done or name in SPECIAL or package.count(".") != 1 or package in ("api.resource", "pkg.runtime", "util.intstr"):
                continue
            numbers = []
            for kind, json_name, options, number in self.structs(package).get(struct, []):
                if not number.isdigit():
                    continue
                if "inline" in options or json_name == "":
                    embedded = self.embedded(package, kind)
                    todo.append(embedded)
                    json_name = "=" + embedded
                numbers.append((int(number), json_name))
            if numbers:
                done[name] = " ".join(f"{number}:{field}" for number, field in sorted(numbers))
        return [f"{name} {fields}" for name, fields in sorted(done.items())]


def outputs(inputs, version):
    head = f"# Kubernetes {version}. Written by cmd/sandbox/generate; do not edit.\n"
    types = Types(inputs)
    return {
        "resources.txt": head + "".join(f"{line}\n" for line in resource_lines(inputs)),
        "types.txt": head + "".join(f"{line}\n" for line in types.type_lines()),
        "protobuf.txt": head + "".join(f"{line}\n" for line in types.number_lines()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", type=Path, help="root of a Kubernetes source tree")
    parser.add_argument("version", help="its release, such as v1.36.4")
    parser.add_argument("--check", action="store_true", help="compare with the committed files instead of writing")
    arguments = parser.parse_args()
    inputs = Inputs(arguments.tree)
    files = {OUTPUT / name: text for name, text in outputs(inputs, arguments.version).items()}
    files[CHECKSUMS] = f"# Kubernetes {arguments.version}\n{inputs.checksums()}"
    if not arguments.check:
        for path, text in files.items():
            path.write_text(text)
        return 0
    changed = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in changed:
        print(f"{path.relative_to(HERE.parent)} differs from its inputs", file=sys.stderr)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
