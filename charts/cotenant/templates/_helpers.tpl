{{/* An image: registry, repository/component and a version. Takes root, component and, where it is not the release's, version. */}}
{{- define "cotenant.image" -}}
{{- $image := .root.Values.image -}}
{{- with $image.registry }}{{ . }}/{{ end }}{{ $image.repository }}/{{ .component }}:{{ .version | default (include "cotenant.version" .) }}
{{- end }}

{{/* Tag of this release's image, and its digest where one is named. Takes root and component. */}}
{{- define "cotenant.version" -}}
{{- include "cotenant.tag" .root }}{{ with index .root.Values.image.digests .component }}@{{ . }}{{ end }}
{{- end }}

{{/* The tag of this release's images. */}}
{{- define "cotenant.tag" -}}
{{- .Values.image.tag | default .Chart.AppVersion -}}
{{- end }}

{{/* Tag and digest of the MPS daemons that are installed; empty where none are, or where there is no cluster to ask. */}}
{{- define "cotenant.installedMPS" -}}
{{- with lookup "apps/v1" "DaemonSet" .Release.Namespace "cotenant-mps" }}
{{- (index .spec.template.spec.containers 0).image | regexFind ":[A-Za-z0-9_][A-Za-z0-9_.-]*(@sha256:[0-9a-f]{64})?$" | trimPrefix ":" }}
{{- end }}
{{- end }}

{{/* The argument that has a program log JSON; empty: text. Values that were reused from an older release have no such key. */}}
{{- define "cotenant.loggingFormat" -}}
{{- if eq ((.Values.logging | default dict).format | default "text") "json" }}- --logging-format=json{{ end }}
{{- end }}

{{/* Whether the installed MPS daemons log JSON; empty: no. */}}
{{- define "cotenant.installedMPSLogsJSON" -}}
{{- with lookup "apps/v1" "DaemonSet" .Release.Namespace "cotenant-mps" }}
{{- if has "--logging-format=json" ((index .spec.template.spec.containers 0).args | default list) }}true{{ end }}
{{- end }}
{{- end }}

{{/* Tag and digest of the MPS daemons; empty: those of this release. */}}
{{- define "cotenant.versionOfMPS" -}}
{{- .Values.node.mps.tag | default (include "cotenant.installedMPS" .) }}
{{- end }}

{{/* kube-scheduler's image: another registry than ours may hold it. */}}
{{- define "cotenant.kubeSchedulerImage" -}}
{{- $image := .Values.scheduler.kubeScheduler.image -}}
{{- with $image.registry | default .Values.image.registry }}{{ . }}/{{ end }}{{ $image.repository }}:{{ $image.tag }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* Labels of an object. Takes root and name. */}}
{{- define "cotenant.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: cotenant
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* Of a pod that needs nothing of its node. */}}
{{- define "cotenant.podSecurityContext" -}}
securityContext:
  runAsNonRoot: true
  {{- include "cotenant.user" . | nindent 2 }}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* User and group; empty: the cluster chooses. Values that were reused from an older release have no such key. */}}
{{- define "cotenant.user" -}}
{{- with hasKey .Values "podSecurityContext" | ternary .Values.podSecurityContext (dict "runAsUser" 65532 "runAsGroup" 65532) }}
{{- with .runAsUser }}
runAsUser: {{ int64 . }}
{{- end }}
{{- with .runAsGroup }}
runAsGroup: {{ int64 . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "cotenant.containerSecurityContext" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* Secrets for pulling: those of all charts of a release, and this one's. A name alone is how earlier releases wrote them. */}}
{{- define "cotenant.pullSecrets" -}}
{{- $names := list -}}
{{- range concat ((.Values.global | default dict).imagePullSecrets | default list) (.Values.image.pullSecrets | default list) }}
{{- $names = append $names (kindIs "map" . | ternary (get (kindIs "map" . | ternary . dict) "name") .) }}
{{- end }}
{{- with uniq $names }}
imagePullSecrets:
{{- range . }}
- name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels of a pod. Takes root, name and values of the component; those of the chart come first, the values' after them. */}}
{{- define "cotenant.podLabels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: cotenant
{{- with .values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where a pod may run, and which pods go for it. Takes nodeSelector, tolerations, affinity and priorityClassName. */}}
{{- define "cotenant.nodes" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* Prometheus reads one component. Takes root, name and port; open: it names nobody, and is shown no token. */}}
{{- define "cotenant.monitor" -}}
{{- $monitor := .root.Values.metrics.serviceMonitor -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}-metrics
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cotenant.labels" . | nindent 4 }}
spec:
  clusterIP: None
  # A pod that is not ready has the most to tell.
  publishNotReadyAddresses: true
  selector:
    app.kubernetes.io/name: {{ .name }}
  ports:
  - {name: metrics, port: {{ .port }}, targetPort: metrics}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cotenant.labels" . | nindent 4 }}
    {{- with $monitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .name }}
  endpoints:
  - port: metrics
    interval: {{ $monitor.interval }}
    {{- with (ternary "" .root.Values.metrics.tokenSecret (default false .open)) }}
    authorization:
      credentials: {name: {{ . }}, key: token}
    {{- end }}
{{- end }}

{{/* Arguments and variables that the values add. Take a component's values. */}}
{{- define "cotenant.extraArgs" -}}
{{- range .extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "cotenant.extraEnv" -}}
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Annotations of a ServiceAccount, such as those by which clouds give it roles. Takes a component's values. */}}
{{- define "cotenant.accountAnnotations" -}}
{{- with (.serviceAccount | default dict).annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
