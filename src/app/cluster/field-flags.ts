// Field flags: which word of `jobman submit`, or which setting, a field of a Job comes from; so that a cluster which refuses a
// field tells people where they said it.

/** From a field as an API server names it, to the word; the first that matches. */
const table: readonly (readonly [field: RegExp, word: string])[] = [
  [/^metadata\.name$/, '-j'],
  [/^metadata\.namespace$/, '-n'],
  [/^metadata\.annotations/, '-a'],
  [/^spec\.(parallelism)$/, '--parallelism'],
  [/^spec\.completions$/, '--completions'],
  [/^spec\.backoffLimit$/, '--backoff-limit'],
  [/^spec\.activeDeadlineSeconds$/, '--timeout'],
  [/^spec\.ttlSecondsAfterFinished$/, '--ttl'],
  [/^spec\.suspend$/, '--suspend'],
  [/containers\[\d+\]\.image$/, '-i'],
  [/containers\[\d+\]\.(args|command)/, 'the words behind --'],
  [/containers\[\d+\]\.resources/, '-r'],
  [/containers\[\d+\]\.(env\[\d+\]\.valueFrom|envFrom)/, '--secret'],
  [/containers\[\d+\]\.env/, '--env'],
  [/containers\[\d+\]\.workingDir/, '--workdir'],
  [/containers\[\d+\]\.volumeMounts/, '--volume'],
  [/\.spec\.volumes\[\d+\]\.emptyDir/, '--shm'],
  [/\.spec\.volumes/, '--volume'],
  [/\.spec\.nodeSelector/, '--gpus'],
  [/\.spec\.serviceAccount/, '--service-account'],
  [/\.spec\.priorityClassName/, 'the setting job.priorityClassName'],
  [/\.spec\.securityContext/, 'the setting job.securityContext'],
];

/** `-r` for `spec.template.spec.containers[0].resources.requests[cpu]`; undefined for a field that nobody says. */
export function flagOfField(field: string): string | undefined {
  return table.find(([pattern]) => pattern.test(field))?.[1];
}
