{{/* Names of everything begin with the release's. */}}
{{- define "rail.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "rail.selector" -}}
app.kubernetes.io/name: briefrail
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .program }}
{{- end -}}

{{- define "rail.labels" -}}
{{ include "rail.selector" . }}
app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "rail.image" -}}
{{- $image := printf "%s/%s" .root.Values.image.prefix .program -}}
{{- if .digest -}}
{{ printf "%s@%s" $image .digest }}
{{- else -}}
{{ printf "%s:%s" $image (.root.Values.image.tag | default .root.Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{/* 90 % of the memory limit, so that Go collects before the kernel kills. */}}
{{- define "rail.memory" -}}
{{- $limit := .limits.memory -}}
{{- $n := regexFind "^[0-9]+" $limit | int64 -}}
{{- if hasSuffix "Gi" $limit }}{{ $n = mul $n 1024 }}{{ end -}}
{{ div (mul $n 9) 10 }}MiB
{{- end -}}

{{- define "rail.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "rail.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "rail.pull" -}}
{{- with .Values.image.pullSecrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where to find the database: as files, which are not shown with the pod and, for the password, may change under it. */}}
{{- define "rail.databaseEnv" -}}
- {name: RAIL_DATABASE_URL_FILE, value: /etc/rail/database/{{ .key }}}
{{- with .passwordKey }}
- {name: RAIL_DATABASE_PASSWORD_FILE, value: /etc/rail/database/{{ . }}}
{{- end }}
{{- end -}}

{{- define "rail.databaseMounts" -}}
- {name: database, mountPath: /etc/rail/database, readOnly: true}
{{- if .Values.database.caConfigMap }}
- {name: ca, mountPath: /etc/rail/ca, readOnly: true}
{{- end }}
{{- end -}}

{{- define "rail.databaseVolumes" -}}
- name: database
  secret: {secretName: {{ .database.secret }}, defaultMode: 0440}
{{- with .root.Values.database.caConfigMap }}
- name: ca
  configMap: {name: {{ . }}}
{{- end }}
{{- end -}}

{{/* Liveness asks no database, so an outage restarts nobody; a start may wait for one for an hour. */}}
{{- define "rail.probes" -}}
livenessProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 20
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
startupProbe:
  httpGet: {path: /startupz, port: admin}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 720
{{- end -}}

{{- define "rail.spread" -}}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "rail.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end -}}

{{/* One daemon: root, program, port, of (its values), database, env, mounts, volumes, ports, grace, replicas. */}}
{{- define "rail.daemon" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "rail.name" .root }}-{{ .program }}
  labels:
    {{- include "rail.labels" . | nindent 4 }}
spec:
  {{- with .replicas }}
  replicas: {{ . }}
  {{- end }}
  revisionHistoryLimit: 5
  selector:
    matchLabels:
      {{- include "rail.selector" . | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
  template:
    metadata:
      labels:
        {{- include "rail.labels" . | nindent 8 }}
      annotations:
        checksum/config: {{ toJson .root.Values.config | sha256sum }}
        {{- with .of.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ if .of.serviceAccount.create }}{{ include "rail.name" .root }}-{{ .program }}{{ else }}default{{ end }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ .grace }}
      {{- with include "rail.pull" .root }}
      {{- . | nindent 6 }}
      {{- end }}
      securityContext:
        {{- include "rail.podSecurity" . | nindent 8 }}
      {{- include "rail.spread" . | nindent 6 }}
      {{- with .of.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .of.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .of.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .of.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .program }}
          image: {{ include "rail.image" (dict "root" .root "program" .program "digest" .of.digest) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [run]
          env:
            - {name: RAIL_CONFIG, value: /etc/rail/config/rail.yaml}
            - {name: RAIL_ADMIN_LISTEN, value: ":{{ .port }}"}
            {{- include "rail.databaseEnv" .database | nindent 12 }}
            {{- with .root.Values.metrics.basicAuthSecret }}
            - name: RAIL_ADMIN_USERNAME
              valueFrom: {secretKeyRef: {name: {{ . }}, key: username}}
            - {name: RAIL_ADMIN_PASSWORD_FILE, value: /etc/rail/admin/password}
            {{- end }}
            {{- if .root.Values.tracing.headers.secret }}
            - {name: RAIL_TRACING_HEADERS_FILE, value: /etc/rail/tracing/{{ .root.Values.tracing.headers.key }}}
            {{- end }}
            {{- with .env }}
            {{- . | nindent 12 }}
            {{- end }}
            - {name: GOMEMLIMIT, value: {{ include "rail.memory" .of.resources }}}
          ports:
            - {name: admin, containerPort: {{ .port }}, protocol: TCP}
            {{- with .ports }}
            {{- . | nindent 12 }}
            {{- end }}
          {{- include "rail.probes" . | nindent 10 }}
          resources:
            {{- toYaml .of.resources | nindent 12 }}
          securityContext:
            {{- include "rail.security" . | nindent 12 }}
          volumeMounts:
            - {name: config, mountPath: /etc/rail/config, readOnly: true}
            {{- include "rail.databaseMounts" .root | nindent 12 }}
            {{- if .root.Values.metrics.basicAuthSecret }}
            - {name: admin, mountPath: /etc/rail/admin, readOnly: true}
            {{- end }}
            {{- if .root.Values.tracing.headers.secret }}
            - {name: tracing, mountPath: /etc/rail/tracing, readOnly: true}
            {{- end }}
            {{- with .mounts }}
            {{- . | nindent 12 }}
            {{- end }}
      volumes:
        - name: config
          configMap: {name: {{ include "rail.name" .root }}}
        {{- include "rail.databaseVolumes" . | nindent 8 }}
        {{- with .root.Values.metrics.basicAuthSecret }}
        - name: admin
          secret: {secretName: {{ . }}, defaultMode: 0440, items: [{key: password, path: password}]}
        {{- end }}
        {{- with .root.Values.tracing.headers.secret }}
        - name: tracing
          secret: {secretName: {{ . }}, defaultMode: 0440}
        {{- end }}
        {{- with .volumes }}
        {{- . | nindent 8 }}
        {{- end }}
{{- end -}}

{{- define "rail.account" -}}
{{- if .of.serviceAccount.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "rail.name" .root }}-{{ .program }}
  labels:
    {{- include "rail.labels" . | nindent 4 }}
  {{- with .of.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- end -}}
