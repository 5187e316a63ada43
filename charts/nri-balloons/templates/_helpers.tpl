{{/* The name people know; the plugin's DaemonSet is one for a cluster. */}}
{{- define "nri-balloons.name" -}}
nri-resource-policy-balloons
{{- end -}}

{{- define "nri-balloons.selectorLabels" -}}
app.kubernetes.io/name: {{ include "nri-balloons.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | toYaml }}
{{- end -}}

{{/* No chart version: it would change the pod template, and restart every pod, with each release of the chart. */}}
{{- define "nri-balloons.labels" -}}
{{ include "nri-balloons.selectorLabels" . }}
app.kubernetes.io/component: node-plugin
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "nri-balloons.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "nri-balloons.name" .) | toYaml }}
{{- end -}}

{{/* An image reference. Takes image and root. */}}
{{- define "nri-balloons.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* A resource list without what was set to null. YAML numbers are floats here: a large one would print as 1e+10. */}}
{{- define "nri-balloons.quantities" -}}
{{- range $name, $quantity := . }}
{{- if not (kindIs "invalid" $quantity) }}
{{- $whole := and (kindIs "float64" $quantity) (eq (floor $quantity) $quantity) }}
{{ $name }}: {{ ternary ($quantity | int64) $quantity $whole | toString | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Requests and limits that are left; empty where all are null. */}}
{{- define "nri-balloons.resources" -}}
{{- range $kind, $quantities := . }}
{{- with include "nri-balloons.quantities" $quantities }}
{{ $kind }}:
  {{- . | trim | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "nri-balloons.podAnnotations" -}}
{{- $own := dict -}}
{{- if .Values.metrics.enabled -}}
{{- $own = dict "prometheus.io/scrape" "true" "prometheus.io/port" (.Values.metrics.port | toString) -}}
{{- end -}}
{{- with merge dict (.Values.podAnnotations | default dict) $own -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "nri-balloons.probe" -}}
httpGet:
  path: /healthz
  port: metrics
periodSeconds: 10
timeoutSeconds: 5
{{- end -}}
