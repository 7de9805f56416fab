{{- define "steersman.name" -}}
{{ .Chart.Name }}
{{- end }}

{{/* Name of the objects. 52 characters leave room for suffixes. */}}
{{- define "steersman.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride }}
{{- else if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "steersman.selectorLabels" -}}
app.kubernetes.io/name: {{ include "steersman.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Helm adds app.kubernetes.io/managed-by at installation. */}}
{{- define "steersman.labels" -}}
{{ include "steersman.labelsWith" (list . dict) }}
{{- end }}

{{/* Labels of an object that has labels of its own, which replace common ones: (list $ labels). */}}
{{- define "steersman.labelsWith" -}}
{{- $root := index . 0 -}}
{{ include "steersman.selectorLabels" $root }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
{{- with merge (deepCopy (index . 1)) $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "steersman.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "steersman.fullname" .) }}
{{- end }}

{{/* The Secret with the webhooks' certificate. Empty if the leader issues it. */}}
{{- define "steersman.webhookSecret" -}}
{{- if not .Values.webhooks.enabled -}}
{{- else if .Values.webhooks.certManager.enabled -}}
{{ include "steersman.fullname" . }}-webhook-certificate
{{- else -}}
{{ .Values.webhooks.secretName }}
{{- end -}}
{{- end }}

{{/* Text of a file of the chart, which must exist: (list $ path). */}}
{{- define "steersman.file" -}}
{{- (index . 0).Files.Get (index . 1) | required (printf "The file %s of the chart is missing: install a complete copy of the chart" (index . 1)) -}}
{{- end }}

{{- define "steersman.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Replaces the default release's name in a name of files/roles.yaml: (list $ name). */}}
{{- define "steersman.rename" -}}
{{ regexReplaceAll "^steersman" (index . 1) (include "steersman.fullname" (index . 0)) }}
{{- end }}

{{/* Replaces the default release's namespace: (list $ namespace). */}}
{{- define "steersman.namespaceOf" -}}
{{ if eq (index . 1) "steersman-system" }}{{ (index . 0).Release.Namespace }}{{ else }}{{ index . 1 }}{{ end }}
{{- end }}

{{/* Components whose roles are installed, as a YAML map. */}}
{{- define "steersman.components" -}}
{{- $controllers := .Values.controllers -}}
access: true
users: true
{{- if .Values.leaderElection.enabled }}
lease: true
{{- end }}
{{- if and .Values.webhooks.enabled (not (include "steersman.webhookSecret" .)) }}
webhook: true
{{- end }}
{{- $yields := false }}
{{- range include "steersman.file" (list . "files/controllers.yaml") | fromYamlArray }}
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

{{/* Fields of a pod that the Deployment and the test have in common. */}}
{{- define "steersman.pod" -}}
{{- $webhookSecret := include "steersman.webhookSecret" . -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  {{- if or .Values.tls.secretName $webhookSecret }}
  # The private keys in mounted Secrets are readable by this group.
  fsGroup: 65532
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- if or .Values.config .Values.tls.secretName $webhookSecret .Values.extraVolumes }}
volumes:
{{- if .Values.config }}
- name: config
  configMap:
    name: {{ include "steersman.fullname" . }}
{{- end }}
{{- if .Values.tls.secretName }}
- name: tls
  secret:
    secretName: {{ .Values.tls.secretName }}
    defaultMode: 0440
{{- end }}
{{- if $webhookSecret }}
- name: webhook
  secret:
    secretName: {{ $webhookSecret }}
    defaultMode: 0440
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fields of the container that the Deployment and the test have in common. */}}
{{- define "steersman.container" -}}
{{- $webhookSecret := include "steersman.webhookSecret" . -}}
image: {{ include "steersman.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- with .Values.extraEnv }}
env:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- with .Values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- if or .Values.config .Values.tls.secretName $webhookSecret .Values.extraVolumeMounts }}
volumeMounts:
{{- if .Values.config }}
- name: config
  mountPath: /etc/steersman/config
  readOnly: true
{{- end }}
{{- if .Values.tls.secretName }}
- name: tls
  mountPath: /etc/steersman/tls
  readOnly: true
{{- end }}
{{- if $webhookSecret }}
- name: webhook
  mountPath: /etc/steersman/webhook
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Arguments of the container. */}}
{{- define "steersman.args" -}}
{{- $name := include "steersman.fullname" . -}}
# Must stay first: overlays patch args/0.
- --controllers={{ join "," .Values.controllers }}
- --leader-elect={{ .Values.leaderElection.enabled }}
- --leader-elect-resource-namespace={{ .Release.Namespace }}
{{- if ne $name "steersman" }}
- --leader-elect-resource-name={{ $name }}
{{- end }}
# Each controller writes as its own service account, in the namespace of the Lease.
- --use-service-account-credentials=true
{{- if .Values.webhooks.enabled }}
- --webhook-port=9443
{{- if include "steersman.webhookSecret" . }}
- --webhook-cert-dir=/etc/steersman/webhook
{{- else }}
- --webhook-service={{ .Release.Namespace }}/{{ $name }}-webhook
{{- end }}
{{- end }}
{{- if .Values.tls.secretName }}
- --tls-cert-file=/etc/steersman/tls/tls.crt
- --tls-private-key-file=/etc/steersman/tls/tls.key
{{- end }}
{{- if .Values.config }}
- --config=/etc/steersman/config/steersman.yaml
{{- end }}
{{- if ne (int .Values.shutdownTimeoutSeconds) 10 }}
- --controller-shutdown-timeout={{ .Values.shutdownTimeoutSeconds }}s
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}
