// Refusals of an API server, and jobman's messages for them; the server's own message is in the lines of the error.
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/

import type { ClusterContext } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { parseShape, type Shape, type ShapeValue } from '../../app/json.ts';
import { isOverloaded } from '../../http/client.ts';
import { certificateProblem, type NoReply } from '../../http/reply.ts';

const statusShape = {
  kind: 'string',
  status: 'string',
  reason: 'string',
  message: 'string',
  details: { kind: 'string', causes: [{ reason: 'string', message: 'string', field: 'string' }] },
  metadata: { continue: 'string' },
} as const satisfies Shape;

type StatusFields = ShapeValue<typeof statusShape>;

export interface Status extends StatusFields {
  readonly code: number;
  /** `AlreadyExists`, `Forbidden`, `Invalid`, `Expired`, … */
  readonly reason: string;
  readonly message: string;
}

/** The cluster refused a request. `status` is the cluster's answer, for callers that react to it. */
export class ClusterRefusal extends JobmanError {
  readonly status: Status;

  constructor(message: string, code: number, lines: readonly string[], status: Status) {
    super(message, code, lines);
    this.name = 'ClusterRefusal';
    this.status = status;
  }
}

/** The Status of a reply. Another text, such as the page of a proxy, becomes the message: its first 300 characters. */
export function readStatus(code: number, bytes: Buffer): Status {
  const text = bytes.toString('utf8');
  const found = parseShape(text, statusShape);
  return found?.kind === 'Status'
    ? { reason: '', message: '', ...found, code }
    : { code, reason: '', message: text.slice(0, 300).trim() };
}

/** The end of a program in a container. A status of another shape becomes the message. */
export function readExecStatus(bytes: Uint8Array): StatusFields {
  const text = Buffer.from(bytes).toString('utf8');
  return parseShape(text, statusShape) ?? { message: text };
}

interface FailedRequest {
  readonly clusterContext: ClusterContext;
  /** `create the job train`: the messages continue "Could not" with it. */
  readonly purpose: string;
  /** Expiry time of our login, if the login shows it. Set for a 401 only. */
  readonly loginExpiredOn?: string | null;
}

/** True for a missing permission (RBAC), an exceeded quota, or a policy of the cluster: HTTP 403. */
export function isForbidden(error: unknown): boolean {
  return error instanceof ClusterRefusal && error.status.code === 403;
}

export function refusalOf(
  status: Status,
  { clusterContext, purpose, loginExpiredOn = null }: FailedRequest,
): ClusterRefusal {
  const where = `${clusterContext.context}/${clusterContext.namespace}`;
  const statusLines = status.message === '' ? [] : [status.message];
  const refuse = (message: string, code: number, lines: readonly string[] = statusLines): ClusterRefusal =>
    new ClusterRefusal(message, code, lines, status);
  switch (status.code) {
    case 401:
      return refuse(
        `The cluster of ${clusterContext.context} does not accept the login of ${clusterContext.user}.`,
        exitCode.unreachable,
        [
          `It ${loginExpiredOn === null ? 'has expired or is wrong' : `expired on ${loginExpiredOn}`}. Log in again as you did for this kubeconfig, and try again.`,
          ...statusLines,
        ],
      );
    case 403:
      return forbiddenRefusal(status, { clusterContext, purpose });
    case 404:
      if (status.details?.kind === 'namespaces') {
        const [, name = clusterContext.namespace] = /^namespaces "(.+)" not found/.exec(status.message) ?? [];
        return refuse(`There is no namespace ${name} in ${clusterContext.context}.`, exitCode.notFound);
      }
      return refuse(`Could not ${purpose}: it does not exist in ${where}.`, exitCode.notFound);
    case 409:
      return refuse(
        `Could not ${purpose}: the name exists in ${where}, or another client changed it at the same time.`,
        exitCode.conflict,
      );
    case 422:
      return refuse(`Could not ${purpose}: the cluster rejects it as invalid.`, exitCode.usage, invalidLines(status));
    default:
      return isOverloaded(status.code)
        ? refuse(
            `Could not ${purpose}: the cluster of ${clusterContext.context} failed or is overloaded, after several tries (HTTP ${status.code}).`,
            exitCode.unreachable,
          )
        : refuse(
            `Could not ${purpose}: the cluster of ${clusterContext.context} refused the request (HTTP ${status.code}).`,
            // A user can name any selector.
            status.code === 400 ? exitCode.usage : exitCode.failed,
          );
  }
}

/** `jobs.batch is forbidden: User "ada" cannot list resource "jobs" in API group "batch" in the namespace "vision"`. */
const forbiddenPattern =
  /User "(?<user>[^"]*)" cannot (?<verb>\w+) resource "(?<resource>[^"]+)"(?: in API group "(?<group>[^"]*)")?(?: in the namespace "(?<namespace>[^"]+)")?/;

function forbiddenRefusal(status: Status, { clusterContext, purpose }: FailedRequest): ClusterRefusal {
  const { user, verb, resource, group, namespace } = forbiddenPattern.exec(status.message)?.groups ?? {};
  if (verb === undefined) {
    const quota = /exceeded quota: (?<name>[^,]+), (?<rest>.+)$/.exec(status.message)?.groups;
    const message =
      quota === undefined
        ? `Could not ${purpose}: the cluster of ${clusterContext.context} does not allow it.`
        : `Could not ${purpose}: the quota ${quota['name']} of ${clusterContext.namespace} is used up (${quota['rest']}).`;
    return new ClusterRefusal(message, exitCode.failed, [status.message], status);
  }
  const where = namespace === undefined ? 'in the whole cluster' : `in the namespace ${namespace}`;
  const full = group === undefined || group === '' ? resource : `${resource}.${group}`;
  return new ClusterRefusal(
    `Could not ${purpose}: ${user === undefined || user === '' ? clusterContext.user : user} may not ${verb} ${resource} ${where} of ${clusterContext.context}.`,
    exitCode.failed,
    [
      `The permission \`${verb}\` on ${String(full)} is missing; the administrator of the cluster can grant it.`,
      status.message,
    ],
    status,
  );
}

function invalidLines({ details, message }: Status): readonly string[] {
  const causes = details?.causes ?? [];
  if (causes.length === 0) return [message];
  const lines = causes.map(({ field = '', message: text = '' }) => {
    const flag = flagOfField(field);
    return `${flag === undefined ? '' : `${flag}: `}${field === '' ? text : `${field}: ${text}`}`;
  });
  return [...new Set(lines)];
}

/** The error for a request without a reply. The message separates a certificate problem from a connection problem. */
export function unreachableError(error: NoReply, { clusterContext, purpose }: FailedRequest): JobmanError {
  const certificate = certificateProblem(error.reason);
  if (certificate !== undefined) {
    return new JobmanError(
      `Could not ${purpose}: the certificate of ${clusterContext.server} (${clusterContext.context}) ${certificate}.`,
      exitCode.unreachable,
      [
        'The kubeconfig must contain the certificate authority of the cluster (certificate-authority); its administrator has it.',
        error.message,
      ],
      { cause: error },
    );
  }
  return new JobmanError(
    `Could not ${purpose}: the cluster of ${clusterContext.context} (${clusterContext.server}) ${error.wasSent ? 'closed the connection' : 'did not answer'}.`,
    exitCode.unreachable,
    [error.message],
    { cause: error },
  );
}

const fieldFlags: readonly (readonly [field: RegExp, flag: string])[] = [
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
  [/containers\[\d+\]\.(args|command)/, 'the arguments after --'],
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

/** `-r` for `spec.template.spec.containers[0].resources.requests[cpu]`; undefined for a field that no flag sets. */
export function flagOfField(field: string): string | undefined {
  return fieldFlags.find(([pattern]) => pattern.test(field))?.[1];
}
