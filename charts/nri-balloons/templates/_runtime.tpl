{{/* Turning NRI on in the runtime: the only part that is privileged, off unless asked for. */}}
{{- define "nri-balloons.runtimeEnabling" -}}
- name: enable-nri
  image: {{ include "nri-balloons.image" (dict "image" .Values.runtimeEnabling.image "root" .) | quote }}
  imagePullPolicy: {{ .Values.runtimeEnabling.image.pullPolicy }}
  {{- if or .Values.runtimeEnabling.pluginRegistrationTimeout .Values.runtimeEnabling.pluginRequestTimeout }}
  args:
    {{- with .Values.runtimeEnabling.pluginRegistrationTimeout }}
    - -nri-plugin-registration-timeout
    - {{ . }}
    {{- end }}
    {{- with .Values.runtimeEnabling.pluginRequestTimeout }}
    - -nri-plugin-request-timeout
    - {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    privileged: true
  volumeMounts:
    - name: runtime-config
      mountPath: {{ include "nri-balloons.runtimeDirectory" . }}
    - name: dbus-socket
      mountPath: /var/run/dbus/system_bus_socket
{{- end -}}

{{- define "nri-balloons.runtimeVolumes" -}}
- name: runtime-config
  hostPath:
    path: {{ include "nri-balloons.runtimeDirectory" . }}
    type: DirectoryOrCreate
- name: dbus-socket
  hostPath:
    path: /var/run/dbus/system_bus_socket
    type: Socket
{{- end -}}

{{- define "nri-balloons.runtimeDirectory" -}}
{{- if eq .Values.runtimeEnabling.runtime "crio" -}}
/etc/crio/crio.conf.d
{{- else -}}
/etc/containerd
{{- end -}}
{{- end -}}
