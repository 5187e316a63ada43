{{/* Labels of every object; they do not change with the chart's version, so an upgrade shows only real changes. */}}
{{- define "balloons-policy.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* One policy. Takes root, name, layout and spec. */}}
{{- define "balloons-policy.object" }}
---
apiVersion: config.nri/v1alpha1
kind: BalloonsPolicy
metadata:
  name: {{ .name }}
  namespace: {{ .root.Values.namespace | default .root.Release.Namespace }}
  labels:
    {{- include "balloons-policy.labels" .root | nindent 4 }}
    {{- with .layout }}
    balloonist.io/layout: {{ . | quote }}
    {{- end }}
  {{- with .root.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- toYaml (include "balloons-policy.canonical" .spec | fromYaml) | nindent 2 }}
{{- end -}}

{{/* The spec with whole numbers as digits: Helm reads them as floats and would write 1048576 as 1.048576e+06. */}}
{{- define "balloons-policy.canonical" -}}
{{- toJson . -}}
{{- end -}}

{{/* Fails where a name stands twice. Takes what ("node" or "group") and the names. */}}
{{- define "balloons-policy.once" -}}
{{- $seen := dict -}}
{{- range .names -}}
{{- if hasKey $seen . -}}
{{- fail (printf "policies: %s %q has two layouts; it can have one" $.what .) -}}
{{- end -}}
{{- $_ := set $seen . true -}}
{{- end -}}
{{- end -}}
