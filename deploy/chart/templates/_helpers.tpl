{{- define "coxswain.name" -}}
{{ .Chart.Name }}
{{- end }}

{{/* Name of the objects. 52 characters leave room for suffixes. */}}
{{- define "coxswain.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "coxswain.selectorLabels" -}}
app.kubernetes.io/name: {{ include "coxswain.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Helm adds app.kubernetes.io/managed-by at installation. */}}
{{- define "coxswain.labels" -}}
{{ include "coxswain.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "coxswain.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Replaces the default release's name in a name of files/roles.yaml: (list $ name). */}}
{{- define "coxswain.rename" -}}
{{ regexReplaceAll "^coxswain" (index . 1) (include "coxswain.fullname" (index . 0)) }}
{{- end }}

{{/* Replaces the default release's namespace: (list $ namespace). */}}
{{- define "coxswain.namespaceOf" -}}
{{ if eq (index . 1) "coxswain-system" }}{{ (index . 0).Release.Namespace }}{{ else }}{{ index . 1 }}{{ end }}
{{- end }}

{{/* Components whose roles are installed, as a YAML map. */}}
{{- define "coxswain.components" -}}
{{- $controllers := .Values.controllers -}}
access: true
users: true
{{- if .Values.leaderElection.enabled }}
lease: true
{{- end }}
{{- if and .Values.webhooks.enabled (not .Values.webhooks.secretName) }}
webhook: true
{{- end }}
{{- $yields := false }}
{{- range .Files.Get "files/controllers.yaml" | fromYamlArray }}
{{- $named := has .name $controllers }}
{{- if or $named (and (has "*" $controllers) (not (has (printf "-%s" .name) $controllers))) }}
{{ .name }}: true
{{- if and .yields (not $named) }}
{{- $yields = true }}
{{- end }}
{{- end }}
{{- end }}
{{- if $yields }}
yielding: true
{{- end }}
{{- end }}
