// Status: what an API server says when it refuses, and the sentence that people get. Its own words are kept in the lines.
// The form: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/

import type { ClusterPlace } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { certificateTrouble, type NoReply } from '../../http/reply.ts';

/** The fields of a Status that jobman reads. */
export interface Status {
  readonly code: number;
  /** `AlreadyExists`, `Forbidden`, `Invalid`, `Expired`, … */
  readonly reason: string;
  readonly message: string;
  readonly details?: {
    readonly name?: string;
    readonly kind?: string;
    readonly causes?: readonly { readonly reason?: string; readonly message?: string; readonly field?: string }[];
  };
  /** With which a list that has grown old goes on. */
  readonly metadata?: { readonly continue?: string };
}

/** The cluster refused. `status` is what it said, for callers that can do something about it. */
export class ClusterRefusal extends JobmanError {
  readonly status: Status;

  constructor(message: string, code: number, lines: readonly string[], status: Status) {
    super(message, code, lines);
    this.name = 'ClusterRefusal';
    this.status = status;
  }
}

/** The Status of a reply; one of our own for a page that is none, as a proxy in between gives it. */
export function readStatus(code: number, bytes: Buffer): Status {
  const text = bytes.toString('utf8');
  try {
    const value = partsOf(JSON.parse(text));
    if (value['kind'] === 'Status') {
      const { continue: next } = partsOf(value['metadata']);
      return {
        code,
        reason: textOf(value['reason']) ?? '',
        message: textOf(value['message']) ?? '',
        details: detailsOf(partsOf(value['details'])),
        ...(typeof next === 'string' ? { metadata: { continue: next } } : {}),
      };
    }
  } catch {
    // Told below as it is.
  }
  return { code, reason: '', message: text.slice(0, 300).trim() };
}

type Parts = Readonly<Record<string, unknown>>;

/** Values of other kinds than Kubernetes has are read as missing. */
function detailsOf({ name, kind, causes }: Parts): NonNullable<Status['details']> {
  const all = Array.isArray(causes) ? causes.map(partsOf) : [];
  return {
    ...textsOf({ name, kind }),
    causes: all.map(({ reason, message, field }) => textsOf({ reason, message, field })),
  };
}

function partsOf(value: unknown): Parts {
  return typeof value === 'object' && value !== null ? (value as Parts) : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function textsOf<Name extends string>(parts: Readonly<Record<Name, unknown>>): Partial<Record<Name, string>> {
  const texts = Object.entries(parts).filter(([, value]) => typeof value === 'string');
  return Object.fromEntries(texts) as Partial<Record<Name, string>>;
}

interface Attempted {
  readonly place: ClusterPlace;
  /** `create the job train`, as it stands behind "could not". */
  readonly what: string;
  /** When our login expired, where it says that it has; of a refusal that is about it. */
  readonly loginExpiredOn?: string | null;
}

/** True of a refusal because a right is missing, or because the cluster's policy does not allow it. */
export function isForbidden(error: unknown): boolean {
  return error instanceof ClusterRefusal && error.status.code === 403;
}

/** The refusal as a sentence, with an exit code. */
export function refusalOf(status: Status, { place, what, loginExpiredOn = null }: Attempted): ClusterRefusal {
  const where = `${place.context}/${place.namespace}`;
  const own = status.message === '' ? [] : [status.message];
  const refuse = (message: string, code: number, lines: readonly string[] = own): ClusterRefusal =>
    new ClusterRefusal(message, code, lines, status);
  switch (status.code) {
    case 401:
      return refuse(
        `The cluster of ${place.context} does not accept the login of ${place.user}.`,
        exitCode.unreachable,
        [
          `It ${loginExpiredOn === null ? 'has expired or is wrong' : `expired on ${loginExpiredOn}`}: log in again as you did for this kubeconfig, and repeat.`,
          ...own,
        ],
      );
    case 403:
      return forbidden(status, { place, what });
    case 404:
      if (status.details?.kind === 'namespaces') {
        return refuse(
          `There is no namespace ${status.details.name ?? place.namespace} in ${place.context}.`,
          exitCode.notFound,
        );
      }
      return refuse(`Could not ${what}: ${where} does not have it.`, exitCode.notFound);
    case 409:
      return refuse(
        `Could not ${what}: there is one of that name in ${where}, or it was just changed.`,
        exitCode.conflict,
      );
    case 422:
      return refuse(`Could not ${what}: the cluster says that it is not valid.`, exitCode.usage, invalidLines(status));
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
      return refuse(
        `Could not ${what}: the cluster of ${place.context} was asked several times and is too busy or broken (HTTP ${status.code}).`,
        exitCode.unreachable,
      );
    default:
      return refuse(
        `Could not ${what}: the cluster of ${place.context} refused it (HTTP ${status.code}).`,
        exitCode.failed,
      );
  }
}

/** `jobs.batch is forbidden: User "ada" cannot list resource "jobs" in API group "batch" in the namespace "vision"`. */
const rights =
  /User "(?<user>[^"]*)" cannot (?<verb>\w+) resource "(?<resource>[^"]+)"(?: in API group "(?<group>[^"]*)")?(?: in the namespace "(?<namespace>[^"]+)")?/;

function forbidden(status: Status, { place, what }: Attempted): ClusterRefusal {
  const { user, verb, resource, group, namespace } = rights.exec(status.message)?.groups ?? {};
  if (verb === undefined) {
    const quota = /exceeded quota: (?<name>[^,]+), (?<rest>.+)$/.exec(status.message)?.groups;
    const message =
      quota === undefined
        ? `Could not ${what}: the cluster of ${place.context} does not allow it.`
        : `Could not ${what}: the quota ${quota['name']} of ${place.namespace} is used up (${quota['rest']}).`;
    return new ClusterRefusal(message, exitCode.failed, [status.message], status);
  }
  const where = namespace === undefined ? 'in the whole cluster' : `in the namespace ${namespace}`;
  const full = group === undefined || group === '' ? resource : `${resource}.${group}`;
  return new ClusterRefusal(
    `Could not ${what}: ${user === undefined || user === '' ? place.user : user} may not ${verb} ${resource} ${where} of ${place.context}.`,
    exitCode.failed,
    [`Missing is the right \`${verb}\` on ${String(full)}; whoever runs the cluster can grant it.`, status.message],
    status,
  );
}

function invalidLines({ details, message }: Status): readonly string[] {
  const causes = details?.causes ?? [];
  if (causes.length === 0) return [message];
  const lines = causes.map(({ field = '', message: says = '' }) => {
    const flag = flagOfField(field);
    return `${flag === undefined ? '' : `${flag}: `}${field === '' ? says : `${field}: ${says}`}`;
  });
  return [...new Set(lines)];
}

/** No reply: the sentence says whether it is the line or the certificate. */
export function unreachable(error: NoReply, { place, what }: Attempted): JobmanError {
  const certificate = certificateTrouble(error.reason);
  if (certificate !== undefined) {
    return new JobmanError(
      `Could not ${what}: the certificate of ${place.server} (${place.context}) ${certificate}.`,
      exitCode.unreachable,
      [
        'The kubeconfig names the authority of its cluster (certificate-authority); whoever runs the cluster has it.',
        error.message,
      ],
      { cause: error },
    );
  }
  return new JobmanError(
    `Could not ${what}: the cluster of ${place.context} (${place.server}) ${error.wasSent ? 'broke off' : 'did not answer'}.`,
    exitCode.unreachable,
    [error.message],
    { cause: error },
  );
}

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
