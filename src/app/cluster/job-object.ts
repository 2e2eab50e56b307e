// Job object: a submit request as a Kubernetes Job of batch/v1. Values in, a value out: a dry run prints every field of
// the Job except those that the cluster fills in.

import type {
  V1Container,
  V1EnvVar,
  V1Job,
  V1PodSecurityContext,
  V1PodSpec,
  V1Toleration,
  V1Volume,
} from '@kubernetes/client-node';
import type { SecretName } from '../../core/model/spec.ts';
import { type Duration, second } from '../../core/model/time.ts';
import { ownNames, type Actor } from '../../core/model/user.ts';
import { isQualifiedName, readJobName, type Toleration } from '../../manifest/kubernetes-values.ts';
import type { Resources } from './flavor.ts';
import { quantityKey } from './quantity.ts';
import type { ClusterSettings, SettingAnnotation } from './settings.ts';
import type { SubmitRequest, SubmitInput } from './submit-request.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { exitCode, JobmanError } from '../errors.ts';

export const clusterLabels = {
  managedBy: 'app.kubernetes.io/managed-by',
  owner: 'jobman/owner',
  installation: 'jobman/installation',
  job: 'jobman/job',
  /** `true` for a Job outside the count: the one that publishes the queue (deploy/kubernetes/queue.yaml). */
  uncounted: 'jobman/uncounted',
  /** Kueue's label for the queue (https://kueue.sigs.k8s.io/docs/tasks/run/jobs/). */
  queue: 'kueue.x-k8s.io/queue-name',
  /** Kueue's label for the priority (https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/). */
  queuePriority: 'kueue.x-k8s.io/priority-class',
} as const;

export function isOwnLabel(key: string): boolean {
  return key.startsWith('jobman/') || key === clusterLabels.managedBy;
}

/** Removes the keys of one Job: its request, and the keys of its cluster, which it refuses or misreads on another Job. */
export function withoutClusterKeys(entries: Readonly<Record<string, string>> = {}): Record<string, string> {
  const isOfCluster = (key: string): boolean =>
    key === requestAnnotation ||
    /^(?:batch\.kubernetes\.io\/|kubectl\.kubernetes\.io\/|(?:controller-uid|job-name)$)/.test(key);
  return Object.fromEntries(Object.entries(entries).filter(([key]) => !isOfCluster(key)));
}

/** On the Job: the request that created it. A request that is repeated after a lost answer finds its Job by this annotation. */
export const requestAnnotation = 'jobman/request';

/** The Secret of a job, and the named secret of its owner behind each variable; null for the value of a file or shell. */
export interface JobSecrets {
  readonly name: string;
  readonly variables: Readonly<Record<string, SecretName | null>>;
}

export const secretsAnnotation = 'jobman/secrets';

export interface Submitter {
  readonly owner: string;
  readonly installation: string | null;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Groups in addition to those of the settings: from `job.userConfigmap`. */
  readonly groups?: readonly number[];
}

const containerName = 'main';

export function jobObject(request: SubmitRequest, settings: ClusterSettings, submitter: Submitter): V1Job {
  const labels = { ...request.labels, ...ownLabels(request.name, submitter) };
  const annotations = {
    ...(request.flavor === null ? {} : { [settings.job.resources.label]: request.flavor }),
    ...annotationsOf(settings.job.annotations, submitter.env),
    ...request.annotations,
    ...(request.notify === undefined ? {} : { [notifyAnnotation]: JSON.stringify(request.notify) }),
    ...(request.ownSecrets === null ? {} : { [secretsAnnotation]: JSON.stringify(request.ownSecrets) }),
  };
  const { parallelism, completions, timeout, ttl } = request;
  const isIndexed = (completions ?? parallelism ?? 1) > 1;
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: request.name,
      ...omitUndefined({ namespace: request.namespace }),
      labels: { ...labels, ...(request.queue === undefined ? {} : { [clusterLabels.queue]: request.queue }) },
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec: {
      backoffLimit: request.backoffLimit ?? 0,
      ...omitUndefined({ parallelism, completions }),
      // Without indexes, all pods would do the same work.
      ...(isIndexed ? { completions: completions ?? parallelism ?? 1, completionMode: 'Indexed' } : {}),
      ...(timeout === undefined ? {} : { activeDeadlineSeconds: wholeSeconds(timeout) }),
      ...(ttl === null ? {} : { ttlSecondsAfterFinished: wholeSeconds(ttl) }),
      ...(request.suspend === true ? { suspend: true } : {}),
      template: { metadata: { labels }, spec: podSpec(request, settings, submitter) },
    },
  };
}

/** Kubernetes counts in whole seconds. Round up, so that a limit never becomes 0. */
function wholeSeconds(duration: Duration): number {
  return Math.ceil(duration / second);
}

export function ownLabels(
  name: string,
  { owner, installation }: Pick<Submitter, 'owner' | 'installation'>,
): Record<string, string> {
  return {
    [clusterLabels.managedBy]: 'jobman',
    [clusterLabels.owner]: labelValue(owner),
    ...(installation === null ? {} : { [clusterLabels.installation]: installation }),
    [clusterLabels.job]: labelValue(name),
  };
}

/**
 * The labels `jobman/owner` of the actor's jobs. A new job gets the first. A user name may have no valid character. For a
 * token only a name that is a label as it is counts: on a server, two users must not have the same label.
 */
export function ownerLabels(actor: Actor): readonly string[] {
  const names = ownNames(actor).filter((name) => actor.via !== 'token' || labelValue(name) === name);
  return [...new Set(names.map(labelValue))].filter((label) => label !== '');
}

/** A valid label value: at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends. */
function labelValue(text: string): string {
  return text
    .replaceAll(/[^A-Za-z0-9_.-]/g, '_')
    .slice(0, 63)
    .replace(/^[_.-]+/, '')
    .replace(/[_.-]+$/, '');
}

function annotationsOf(
  annotations: readonly SettingAnnotation[],
  env: Submitter['env'],
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    annotations.flatMap(({ key, value, valueType }) => {
      const text = valueType === 'env' ? env[value] : value;
      return text === undefined ? [] : [[key, text]];
    }),
  );
}

function podSpec(request: SubmitRequest, settings: ClusterSettings, submitter: Submitter): V1PodSpec {
  const { serviceAccount, nodeSelector, tolerations, priorityClass, imagePullSecrets } = request;
  const volumes = volumesOf(request);
  const security = securityContext(settings, submitter.groups ?? []);
  return {
    restartPolicy: 'Never',
    ...(Object.keys(security).length === 0 ? {} : { securityContext: security }),
    ...omitUndefined({ priorityClassName: priorityClass, serviceAccountName: serviceAccount }),
    ...(Object.keys(nodeSelector).length === 0 ? {} : { nodeSelector: { ...nodeSelector } }),
    ...(tolerations.length === 0 ? {} : { tolerations: tolerations.map(tolerationOf) }),
    ...(imagePullSecrets.length === 0 ? {} : { imagePullSecrets: imagePullSecrets.map((name) => ({ name })) }),
    containers: [container(request)],
    ...(volumes.length === 0 ? {} : { volumes }),
  };
}

function tolerationOf({ key, value, effect }: Toleration): V1Toleration {
  return {
    key,
    ...(value === null ? { operator: 'Exists' } : { operator: 'Equal', value }),
    ...(effect === null ? {} : { effect }),
  };
}

function securityContext({ job }: ClusterSettings, groups: readonly number[]): V1PodSecurityContext {
  const { runAsUser, runAsGroup, fsGroup } = job.securityContext;
  const all = [...new Set([...job.securityContext.supplementalGroups, ...groups])];
  return {
    ...(runAsUser === null ? {} : { runAsUser }),
    ...(runAsGroup === null ? {} : { runAsGroup }),
    ...(fsGroup === null ? {} : { fsGroup }),
    ...(all.length === 0 ? {} : { supplementalGroups: all }),
  };
}

function container(request: SubmitRequest): V1Container {
  const { secrets = [], volumes = [], shm } = request;
  const env = envOf(request);
  const whole = secrets.filter(({ key }) => key === null);
  const mounts = [
    ...volumes.map(({ path, readOnly }, index) => ({
      name: volumeName(index),
      mountPath: path,
      ...(readOnly ? { readOnly } : {}),
    })),
    ...(shm === undefined ? [] : [{ name: shmName, mountPath: '/dev/shm' }]),
  ];
  return {
    name: containerName,
    image: request.image,
    ...omitUndefined({
      command: request.command?.map(escapeDollars),
      args: request.args?.map(escapeDollars),
      workingDir: request.workdir,
    }),
    ...(env.length === 0 ? {} : { env }),
    ...(whole.length === 0 ? {} : { envFrom: whole.map(({ secret }) => ({ secretRef: { name: secret } })) }),
    resources: resourcesOf(request.resources),
    ...(mounts.length === 0 ? {} : { volumeMounts: mounts }),
  };
}

function resourcesOf({ requests, limits }: Resources): NonNullable<V1Container['resources']> {
  return {
    ...(Object.keys(requests).length === 0 ? {} : { requests: { ...requests } }),
    ...(limits === null ? {} : { limits: { ...limits } }),
  };
}

function envOf({ env = {}, secrets = [], ownSecrets }: SubmitRequest): V1EnvVar[] {
  const own = Object.keys(ownSecrets?.variables ?? {}).map((variable) => ({
    name: variable,
    valueFrom: { secretKeyRef: { name: ownSecrets?.name ?? '', key: variable } },
  }));
  const named = secrets.flatMap((one): V1EnvVar[] =>
    one.key === null ? [] : [{ name: one.variable, valueFrom: { secretKeyRef: { name: one.secret, key: one.key } } }],
  );
  const plain = Object.entries(env).map(([name, value]) => ({ name, value: escapeDollars(value) }));
  return [...plain, ...named, ...own];
}

/**
 * Kubernetes turns `$$` into `$`, which would take a shell its `$$`, so this doubles them. `$(NAME)` and `$$(NAME)`
 * stay Kubernetes' own.
 * https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
 */
function escapeDollars(text: string): string {
  return text.replaceAll(/\${2,}(?![($])/g, (dollars) => dollars + dollars);
}

const shmName = 'shm';

function volumeName(index: number): string {
  return `volume-${index}`;
}

function volumesOf({ volumes = [], shm }: SubmitRequest): V1Volume[] {
  return [
    ...volumes.map(({ claim, readOnly }, index) => ({
      name: volumeName(index),
      persistentVolumeClaim: { claimName: claim, ...(readOnly ? { readOnly } : {}) },
    })),
    ...(shm === undefined ? [] : [{ name: shmName, emptyDir: { medium: 'Memory', sizeLimit: shm } }]),
  ];
}

/** One line per amount that the cluster changed, for example by a webhook. Its notation does not matter. */
export function replacedResources(requested: V1Job, created: V1Job): readonly string[] {
  const [requestedContainers = [], createdContainers = []] = [requested, created].map(
    (job) => job.spec?.template.spec?.containers ?? [],
  );
  return requestedContainers.flatMap((container) => {
    const other = createdContainers.find(({ name }) => name === container.name);
    const lines = other === undefined ? [] : replacedInContainer(container.resources ?? {}, other.resources ?? {});
    return requestedContainers.length > 1 ? lines.map((line) => `${container.name}: ${line}`) : lines;
  });
}

type ContainerResources = NonNullable<V1Container['resources']>;

function replacedInContainer(before: ContainerResources, after: ContainerResources): readonly string[] {
  return (['requests', 'limits'] as const).flatMap((side) => {
    const [wanted = {}, got = {}] = [before[side], after[side]];
    const names = [...new Set([...Object.keys(wanted), ...Object.keys(got)])].toSorted();
    return names.flatMap((name) => {
      const [one, other] = [wanted[name], got[name]];
      // Without a request the cluster copies the limit, which replaces nothing.
      if (one === other || (one === undefined && side === 'requests' && before.limits?.[name] === other)) return [];
      if (one !== undefined && other !== undefined && quantityKey(one) === quantityKey(other)) return [];
      return [
        `${side === 'requests' ? 'request' : 'limit'} of ${name}: requested ${one ?? 'none'}, granted ${other ?? 'none'}`,
      ];
    });
  });
}

/** The events to report and their recipients, as JSON. */
export const notifyAnnotation = 'jobman/notify';

export function mainContainer<T extends { readonly name: string }>(containers: readonly T[]): T | undefined {
  return containers.find(({ name }) => name === containerName) ?? containers[0];
}

// ------------------------------------------------------------------------------------------ a Job from a file

export type JobFileOverrides = Pick<
  SubmitInput,
  'name' | 'namespace' | 'context' | 'annotations' | 'labels' | 'ttl' | 'suspend' | 'queue'
>;

/** The name in the flags, else in the file, else a generated one. Throws JobmanError (usage) if it is invalid. */
export function jobFileName(job: V1Job, overrides: JobFileOverrides, generatedName: string): string {
  const { name, generateName } = job.metadata ?? {};
  const generated = generateName === undefined ? generatedName : `${generateName}${generatedName.slice(-8)}`;
  const chosen = overrides.name ?? name ?? generated;
  const read = readJobName(chosen);
  if ('value' in read) return chosen;
  throw new JobmanError(
    `The name "${chosen}" ${read.problem}${read.suggestion === undefined ? '.' : `; did you mean ${read.suggestion}?`}`,
    exitCode.usage,
  );
}

/** Throws JobmanError (usage) for labels that only jobman may write, and for invalid keys. */
export function checkJobFile(job: V1Job, overrides: JobFileOverrides): void {
  const labels = { ...job.spec?.template.metadata?.labels, ...job.metadata?.labels, ...overrides.labels };
  const own = Object.keys(labels).filter(isOwnLabel);
  // A file from `submit --dry-run` or from a cluster may contain our labels; flags may not.
  const reserved = Object.keys(overrides.labels ?? {}).filter(isOwnLabel);
  if (reserved[0] !== undefined) {
    throw new JobmanError(`jobman sets the label ${reserved[0]} itself. Choose another key.`, exitCode.usage);
  }
  const wrong = Object.keys(labels).find((key) => !own.includes(key) && !isQualifiedName(key));
  if (wrong !== undefined) throw new JobmanError(`The label "${wrong}" has an invalid key.`, exitCode.usage);
}

/** Omits the fields that a cluster has added. */
export function jobFromFile(
  job: V1Job,
  name: string,
  overrides: JobFileOverrides,
  settings: ClusterSettings,
  submitter: Submitter,
): V1Job {
  const { metadata = {}, spec } = job;
  const { selector, template, ...rest } = spec ?? { template: {} };
  const own = ownLabels(name, submitter);
  const annotations = {
    ...annotationsOf(settings.job.annotations, submitter.env),
    ...withoutClusterKeys(metadata.annotations),
    ...overrides.annotations,
  };
  const { ttl, suspend, queue } = overrides;
  const { ttlSecondsAfterFinished, ...withoutTtl } = rest;
  const seconds = ttl === undefined ? ttlSecondsAfterFinished : ttl === 'none' ? undefined : wholeSeconds(ttl);
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      ...omitUndefined({
        namespace: overrides.namespace ?? metadata.namespace,
        finalizers: metadata.finalizers,
        ownerReferences: metadata.ownerReferences,
      }),
      labels: {
        ...withoutClusterKeys(metadata.labels),
        ...overrides.labels,
        ...own,
        ...(queue === undefined ? {} : { [clusterLabels.queue]: queue }),
      },
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec: {
      ...withoutTtl,
      ...omitUndefined({ ttlSecondsAfterFinished: seconds, suspend: suspend ?? rest.suspend }),
      // Without manualSelector the cluster chooses the selector and refuses any other.
      ...(rest.manualSelector === true ? omitUndefined({ selector }) : {}),
      template: {
        // As objects, to keep fields that the library's types do not know; the cluster validates them.
        ...(template as object),
        metadata: {
          ...(template.metadata as object | undefined),
          labels: { ...withoutClusterKeys(template.metadata?.labels), ...overrides.labels, ...own },
        },
      },
    },
  };
}
