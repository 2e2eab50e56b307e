// Job object: a submit request in Kubernetes' own words, a Job of batch/v1. Values in, a value out: a dry run prints what
// would be created, to the last field that is not the cluster's to fill in.

import type {
  V1Container,
  V1EnvVar,
  V1Job,
  V1PodSecurityContext,
  V1PodSpec,
  V1Toleration,
  V1Volume,
} from '@kubernetes/client-node';
import { type Duration, second } from '../../core/time.ts';
import { isQualifiedName, readJobName, type Toleration } from '../../manifest/kubernetes-words.ts';
import type { Resources } from './flavor.ts';
import { quantityKey } from './quantity.ts';
import type { ClusterSettings, SettingAnnotation } from './settings.ts';
import type { SubmitRequest, SubmitWishes } from './submit-request.ts';
import { given } from '../../core/given.ts';
import { exitCode, JobmanError } from '../errors.ts';

/** Labels of what jobman makes in a cluster, on the Job and on its pods. */
export const clusterLabels = {
  managedBy: 'app.kubernetes.io/managed-by',
  owner: 'jobman/owner',
  installation: 'jobman/installation',
  job: 'jobman/job',
  /** `true` on what no queue is to count: the job that publishes the list of them (deploy/kubernetes/queue.yaml). */
  uncounted: 'jobman/uncounted',
  /** Kueue's, by which it finds the queue (https://kueue.sigs.k8s.io/docs/tasks/run/jobs/). */
  queue: 'kueue.x-k8s.io/queue-name',
  /** Kueue's, by which it orders a queue (https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/). */
  queuePriority: 'kueue.x-k8s.io/priority-class',
} as const;

/** True of the key of a label that jobman writes itself. */
export function isOwnLabel(key: string): boolean {
  return key.startsWith('jobman/') || key === clusterLabels.managedBy;
}

/** Labels or annotations without those that a cluster adds to a Job by itself, and refuses or misreads on another one. */
export function withoutCluster(words: Readonly<Record<string, string>> = {}): Record<string, string> {
  const isOfCluster = (key: string): boolean =>
    /^(?:batch\.kubernetes\.io\/|kubectl\.kubernetes\.io\/|(?:controller-uid|job-name)$)/.test(key);
  return Object.fromEntries(Object.entries(words).filter(([key]) => !isOfCluster(key)));
}

/** The user who submits it, and facts from elsewhere. */
export interface Submitter {
  readonly owner: string;
  readonly installation: string | null;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Groups beside those of the settings: what `job.userConfigmap` says. */
  readonly groups?: readonly number[];
}

const containerName = 'main';

/** The Job that the request asks for. */
export function jobObject(request: SubmitRequest, settings: ClusterSettings, submitter: Submitter): V1Job {
  const labels = labelsOf(request, submitter);
  const annotations = {
    ...(request.flavor === null ? {} : { [settings.job.resources.label]: request.flavor }),
    ...annotationsOf(settings.job.annotations, submitter.env),
    ...request.annotations,
  };
  const { parallelism, completions, timeout, ttl } = request;
  const isIndexed = (completions ?? parallelism ?? 1) > 1;
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: request.name,
      ...(request.namespace === null ? {} : { namespace: request.namespace }),
      labels: { ...labels, ...(request.queue === null ? {} : { [clusterLabels.queue]: request.queue }) },
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec: {
      backoffLimit: request.backoffLimit,
      ...(parallelism === null ? {} : { parallelism }),
      // Several pods without a number each would all do the same work.
      ...(isIndexed ? { completions: completions ?? parallelism ?? 1, completionMode: 'Indexed' } : {}),
      ...(!isIndexed && completions !== null ? { completions } : {}),
      ...(timeout === null ? {} : { activeDeadlineSeconds: wholeSeconds(timeout) }),
      ...(ttl === null ? {} : { ttlSecondsAfterFinished: wholeSeconds(ttl) }),
      ...(request.suspend ? { suspend: true } : {}),
      template: { metadata: { labels }, spec: podSpec(request, settings, submitter) },
    },
  };
}

/** Kubernetes counts in whole seconds; a limit that was given never becomes none. */
function wholeSeconds(duration: Duration): number {
  return Math.ceil(duration / second);
}

function labelsOf(request: SubmitRequest, submitter: Submitter): Record<string, string> {
  return { ...request.labels, ...ownLabels(request.name, submitter) };
}

/** The labels of the Job of that name and of its pods, by which it is found again. */
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

/** The text as the value of a label: at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends. */
export function labelValue(text: string): string {
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
    ...(priorityClass === null ? {} : { priorityClassName: priorityClass }),
    ...(serviceAccount === null ? {} : { serviceAccountName: serviceAccount }),
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
  const env = envOf(request);
  const whole = request.secrets.filter(({ key }) => key === null);
  const mounts = [
    ...request.volumes.map(({ path, readOnly }, index) => ({
      name: volumeName(index),
      mountPath: path,
      ...(readOnly ? { readOnly } : {}),
    })),
    ...(request.shm === null ? [] : [{ name: shmName, mountPath: '/dev/shm' }]),
  ];
  return {
    name: containerName,
    image: request.image,
    ...(request.command === null ? {} : { command: request.command.map(asTyped) }),
    ...(request.args === null ? {} : { args: request.args.map(asTyped) }),
    ...(request.workdir === null ? {} : { workingDir: request.workdir }),
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

/** Secrets are named, never held: their values stay in the cluster. */
function envOf({ env, secrets }: SubmitRequest): V1EnvVar[] {
  const named = secrets.flatMap((one): V1EnvVar[] =>
    one.key === null ? [] : [{ name: one.variable, valueFrom: { secretKeyRef: { name: one.secret, key: one.key } } }],
  );
  const plain = Object.entries(env).map(([name, value]) => ({ name, value: asTyped(value) }));
  return [...plain, ...named];
}

/**
 * Kubernetes makes one dollar of two, which would take a shell its `$$`; four become two again. What it does with
 * `$(NAME)`, and with `$$(NAME)` for those who know it, is left to it.
 * https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/
 */
function asTyped(word: string): string {
  return word.replaceAll(/\${2,}(?![($])/g, (dollars) => dollars + dollars);
}

const shmName = 'shm';

function volumeName(index: number): string {
  return `volume-${index}`;
}

function volumesOf({ volumes, shm }: SubmitRequest): V1Volume[] {
  return [
    ...volumes.map(({ claim, readOnly }, index) => ({
      name: volumeName(index),
      persistentVolumeClaim: { claimName: claim, ...(readOnly ? { readOnly } : {}) },
    })),
    ...(shm === null ? [] : [{ name: shmName, emptyDir: { medium: 'Memory', sizeLimit: shm } }]),
  ];
}

/** One line for each amount that a cluster, for example a platform's webhook, has changed; how an amount is written makes no difference. */
export function replacedResources(asked: V1Job, made: V1Job): readonly string[] {
  const [wanted = [], given = []] = [asked, made].map((job) => job.spec?.template.spec?.containers ?? []);
  return wanted.flatMap((container) => {
    const other = given.find(({ name }) => name === container.name);
    const lines = other === undefined ? [] : replacedIn(container.resources ?? {}, other.resources ?? {});
    return wanted.length > 1 ? lines.map((line) => `${container.name}: ${line}`) : lines;
  });
}

type ContainerResources = NonNullable<V1Container['resources']>;

function replacedIn(before: ContainerResources, after: ContainerResources): readonly string[] {
  return (['requests', 'limits'] as const).flatMap((side) => {
    const [wanted = {}, got = {}] = [before[side], after[side]];
    const names = [...new Set([...Object.keys(wanted), ...Object.keys(got)])].toSorted();
    return names.flatMap((name) => {
      const [one, other] = [wanted[name], got[name]];
      // Where no request was said, the cluster copies the limit; that replaces nothing.
      if (one === other || (one === undefined && side === 'requests' && wantedLimit(before, name) === other)) return [];
      if (one !== undefined && other !== undefined && quantityKey(one) === quantityKey(other)) return [];
      return [
        `${side === 'requests' ? 'request' : 'limit'} of ${name}: asked ${one ?? 'none'}, granted ${other ?? 'none'}`,
      ];
    });
  });
}

/** The annotation of a Job whose resources the cluster has replaced: what was asked for, and what was granted. */
export const replacedKey = 'jobman/replaced-resources';

function wantedLimit(resources: ContainerResources, name: string): string | undefined {
  return resources.limits?.[name];
}

/** The one that jobman makes, else the first. */
export function mainContainer<T extends { readonly name: string }>(containers: readonly T[]): T | undefined {
  return containers.find(({ name }) => name === containerName) ?? containers[0];
}

// ------------------------------------------------------------------------------------------ a Job from a file

/** The part of a request that the command line may set for a job whose spec is in a file. */
export type JobFileWishes = Pick<
  SubmitWishes,
  'name' | 'namespace' | 'context' | 'annotations' | 'labels' | 'ttl' | 'suspend' | 'queue'
>;

/** The name of the job: that of the flags, else that of the file, else a new one. Throws JobmanError (usage) for an invalid one. */
export function jobFileName(job: V1Job, wishes: JobFileWishes, freshName: string): string {
  const { name, generateName } = job.metadata ?? {};
  const fresh = generateName === undefined ? freshName : `${generateName}${freshName.slice(-8)}`;
  const chosen = wishes.name ?? name ?? fresh;
  const read = readJobName(chosen);
  if ('value' in read) return chosen;
  throw new JobmanError(
    `The name "${chosen}" ${read.wrong}${read.meant === undefined ? '.' : `; did you mean ${read.meant}?`}`,
    exitCode.usage,
  );
}

/** Throws JobmanError (usage) for labels and annotations that are not the file's to write. */
export function checkJobFile(job: V1Job, wishes: JobFileWishes): void {
  const labels = { ...job.spec?.template.metadata?.labels, ...job.metadata?.labels, ...wishes.labels };
  const own = Object.keys(labels).filter(isOwnLabel);
  // A file that was printed by `submit --dry-run` or read from a cluster has ours.
  const strange = Object.keys(wishes.labels ?? {}).filter(isOwnLabel);
  if (strange[0] !== undefined) {
    throw new JobmanError(`The label ${strange[0]} is written by jobman itself; choose another key.`, exitCode.usage);
  }
  const wrong = Object.keys(labels).find((key) => !own.includes(key) && !isQualifiedName(key));
  if (wrong !== undefined) throw new JobmanError(`The label "${wrong}" has an invalid key.`, exitCode.usage);
}

/** The object to create. What a cluster has added to it, where it was read from one, is left out. */
export function jobFromFile(
  job: V1Job,
  name: string,
  wishes: JobFileWishes,
  settings: ClusterSettings,
  submitter: Submitter,
): V1Job {
  const { metadata = {}, spec } = job;
  const { selector, template, ...rest } = spec ?? { template: {} };
  const own = ownLabels(name, submitter);
  const annotations = {
    ...annotationsOf(settings.job.annotations, submitter.env),
    ...withoutCluster(metadata.annotations),
    ...wishes.annotations,
  };
  const { ttl, suspend, queue } = wishes;
  const { ttlSecondsAfterFinished, ...withoutTtl } = rest;
  const seconds = ttl === undefined ? ttlSecondsAfterFinished : ttl === 'none' ? undefined : wholeSeconds(ttl);
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      ...given({
        namespace: wishes.namespace ?? metadata.namespace,
        finalizers: metadata.finalizers,
        ownerReferences: metadata.ownerReferences,
      }),
      labels: {
        ...withoutCluster(metadata.labels),
        ...wishes.labels,
        ...own,
        ...(queue === undefined ? {} : { [clusterLabels.queue]: queue }),
      },
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec: {
      ...withoutTtl,
      ...given({ ttlSecondsAfterFinished: seconds, suspend: suspend ?? rest.suspend }),
      // Without manualSelector the cluster chooses the selector, and refuses one that it did not choose.
      ...(rest.manualSelector === true ? given({ selector }) : {}),
      template: {
        // As objects: their fields are kept also where the types of the library do not know them, for the cluster to judge.
        ...(template as object),
        metadata: {
          ...(template.metadata as object | undefined),
          labels: { ...withoutCluster(template.metadata?.labels), ...wishes.labels, ...own },
        },
      },
    },
  };
}
