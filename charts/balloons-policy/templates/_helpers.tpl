{{/* Labels of every object. Those of the values may not replace the chart's own. */}}
{{- define "balloons-policy.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" .root.Chart.Name
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_"))
-}}
{{- with .layout }}{{ $_ := set $own "balloonist.io/layout" . }}{{ end -}}
{{- toYaml (merge $own (.root.Values.commonLabels | default dict)) -}}
{{- end -}}

{{/* One policy. Takes root, name, layout (its name, empty for the default) and spec. */}}
{{- define "balloons-policy.object" }}
{{- if gt (len .name) 253 }}
{{- fail (printf "policies: the name %q has %d characters; Kubernetes allows 253" .name (len .name)) }}
{{- end }}
---
apiVersion: config.nri/v1alpha1
kind: BalloonsPolicy
metadata:
  name: {{ .name }}
  namespace: {{ .root.Values.namespace | default .root.Release.Namespace | toYaml }}
  labels:
    {{- include "balloons-policy.labels" . | nindent 4 }}
  {{- with .root.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "balloons-policy.spec" .spec | nindent 2 }}
{{- end -}}

{{/* The spec as the API server stores it: what it would fill in is written, else GitOps tools see a difference. */}}
{{- define "balloons-policy.spec" -}}
{{- $types := list -}}
{{- range .balloonTypes -}}
{{- $types = append $types (merge (dict) . (dict "allocatorPriority" "high")) -}}
{{- end -}}
{{- if $types -}}
{{- toYaml (merge (dict "balloonTypes" $types) .) -}}
{{- else -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* Fails where the spec names what it does not define: the plugin would refuse it on the node. Takes where and spec. */}}
{{- define "balloons-policy.check" -}}
{{- $where := .where -}}
{{- $types := dict -}}
{{- range .spec.balloonTypes -}}
{{- if hasKey $types .name -}}
{{- fail (printf "%s: there are two balloonTypes named %q" $where .name) -}}
{{- end -}}
{{- $_ := set $types .name true -}}
{{- end -}}
{{- $loads := dict -}}
{{- range .spec.loadClasses -}}
{{- $_ := set $loads .name true -}}
{{- end -}}
{{- range $type := .spec.balloonTypes -}}
{{- range .components -}}
{{- if not (or (hasKey $types .balloonType) (has .balloonType (list "reserved" "default"))) -}}
{{- fail (printf "%s: balloonType %q of the components of %q is not among balloonTypes" $where .balloonType $type.name) -}}
{{- end -}}
{{- end -}}
{{- range .loads -}}
{{- if not (hasKey $loads .) -}}
{{- fail (printf "%s: load %q of %q is not among loadClasses" $where . $type.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
