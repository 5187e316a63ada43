{{/* The name people know; the plugin's DaemonSet is one for a cluster. */}}
{{- define "nri-balloons.name" -}}
nri-resource-policy-balloons
{{- end -}}

{{- define "nri-balloons.selectorLabels" -}}
app.kubernetes.io/name: {{ include "nri-balloons.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* No chart version: it would change the pod template, and restart every pod, with each release of the chart. */}}
{{- define "nri-balloons.labels" -}}
{{ include "nri-balloons.selectorLabels" . }}
app.kubernetes.io/component: node-plugin
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "nri-balloons.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "nri-balloons.name" .) }}
{{- end -}}

{{/* An image reference. Takes image and root. */}}
{{- define "nri-balloons.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* A resource list without what was set to null. */}}
{{- define "nri-balloons.quantities" -}}
{{- range $name, $quantity := . }}
{{- if not (kindIs "invalid" $quantity) }}
{{ $name }}: {{ $quantity | toString | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "nri-balloons.probe" -}}
httpGet:
  path: /healthz
  port: metrics
periodSeconds: 10
timeoutSeconds: 5
{{- end -}}
