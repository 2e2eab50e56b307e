// Submit request: what somebody wants to run in a cluster, from the command line or from a manifest, completed from the
// settings until nothing is left to decide. What becomes of it in Kubernetes' words is job-object.ts's.

import { given } from '../../core/given.ts';
import type { Duration } from '../../core/time.ts';
import { parseDuration } from '../../manifest/durations.ts';
import type { ClusterManifest } from '../../manifest/kubernetes.ts';
import {
  isLabelValue,
  isQualifiedName,
  readImage,
  readJobName,
  type GpuWish,
  type SecretWish,
  type Toleration,
  type VolumeWish,
} from '../../manifest/kubernetes-words.ts';
import { shortened, refuse } from '../../schema/kinds.ts';
import { newFindings } from '../../schema/problems.ts';
import { plain } from '../../schema/tree.ts';
import { exitCode, JobmanError } from '../errors.ts';
import {
  findFlavor,
  isExtended,
  isGpu,
  jsonOf,
  jsonTrouble,
  problemOfAmount,
  problemsTogether,
  withLimits,
  type Amounts,
  type Resources,
} from './flavor.ts';
import { clusterLabels, isOwnLabel } from './job-object.ts';
import { compareQuantities, parseQuantity, quantityKey, zero } from './quantity.ts';
import type { ClusterSettings } from './settings.ts';

/** The request as flags or a manifest state it; absent fields were not given. */
export type SubmitWishes = ClusterManifest;

/** Everything that a Job is made of; null where Kubernetes or the image decides. */
export interface SubmitRequest {
  readonly name: string;
  readonly namespace: string | null;
  readonly context: string | null;
  readonly image: string;
  readonly command: readonly string[] | null;
  readonly args: readonly string[] | null;
  /** The name that is written on the Job; null for requests without one. */
  readonly flavor: string | null;
  /** With limits wherever an API server wants them. */
  readonly resources: Resources;
  readonly annotations: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly secrets: readonly SecretWish[];
  readonly workdir: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly nodeSelector: Readonly<Record<string, string>>;
  readonly tolerations: readonly Toleration[];
  readonly priorityClass: string | null;
  readonly imagePullSecrets: readonly string[];
  readonly shm: string | null;
  readonly volumes: readonly VolumeWish[];
  readonly serviceAccount: string | null;
  readonly parallelism: number | null;
  readonly completions: number | null;
  readonly backoffLimit: number;
  readonly timeout: Duration | null;
  readonly ttl: Duration | null;
  readonly suspend: boolean;
  readonly queue: string | null;
}

/** The defaults that a request is completed from. */
export interface SubmitSurroundings {
  readonly settings: ClusterSettings;
  readonly freshName: string;
  /** The text of a flavor's file; undefined when there is none. */
  readonly readFile: (path: string) => string | undefined;
}

/** A request, and sentences about what is unlikely to be meant. */
export interface SubmitFindings {
  readonly request: SubmitRequest;
  readonly doubts: readonly string[];
}

/** Those of the command line over those of the manifest. Who gives words to run replaces all of what would have run. */
export function mergedWishes(manifest: SubmitWishes, flags: SubmitWishes): SubmitWishes {
  const { command, args, flavor, resources, ...rest } = manifest;
  const map = (key: 'annotations' | 'env' | 'labels' | 'nodeSelector') =>
    manifest[key] === undefined && flags[key] === undefined ? {} : { [key]: { ...manifest[key], ...flags[key] } };
  const list = (key: 'secrets' | 'volumes' | 'tolerations' | 'imagePullSecrets') =>
    manifest[key] === undefined && flags[key] === undefined
      ? {}
      : { [key]: [...(manifest[key] ?? []), ...(flags[key] ?? [])] };
  return {
    ...rest,
    ...(flags.command === undefined && flags.args === undefined ? given({ command, args }) : {}),
    ...(flags.flavor === undefined && flags.resources === undefined ? given({ flavor, resources }) : {}),
    ...flags,
    ...map('annotations'),
    ...map('env'),
    ...map('labels'),
    ...map('nodeSelector'),
    ...list('secrets'),
    ...list('volumes'),
    ...list('tolerations'),
    ...list('imagePullSecrets'),
  };
}

/**
 * The request that the wishes mean. Throws JobmanError (usage) with everything that is wrong at once; of a flavor that does
 * not exist (not found), or that is wrong itself, nothing else is said.
 */
export function submitRequest(wishes: SubmitWishes, around: SubmitSurroundings): SubmitFindings {
  const { settings } = around;
  const problems: string[] = [];
  const doubts: string[] = [];

  const name = wishes.name ?? around.freshName;
  const readName = readJobName(name);
  if ('wrong' in readName) problems.push(`The name "${name}" ${readName.wrong}${endText(readName.meant)}`);

  const image = `${settings.job.imagePrefix ?? ''}${wishes.image ?? settings.job.defaultImage ?? ''}`;
  if (wishes.image === undefined && settings.job.defaultImage === null) {
    problems.push('No image is named: say it with -i, or set job.defaultImage in the settings.');
  } else if (/\s/.test(image) || image === '')
    problems.push(`The image "${image}" is none: it is empty or holds a blank.`);
  else {
    // The API server accepts such a Job; its pod then holds its resources in InvalidImageName until the Job is deleted.
    const read = readImage(image);
    if ('wrong' in read) problems.push(`The image ${image} ${read.wrong}${endText(read.meant)}`);
  }

  const asked = askedFor(wishes, around, doubts);
  for (const [resource, amount] of Object.entries(asked.resources.requests)) {
    const wrong = problemOfAmount(resource, amount);
    if (wrong !== undefined) problems.push(`The request of ${resource} ${wrong}.`);
  }
  for (const says of problemsTogether(asked.resources)) problems.push(`${says[0]?.toUpperCase()}${says.slice(1)}.`);

  const shm = wishes.shm === undefined ? undefined : parseQuantity(wishes.shm);
  if (wishes.shm !== undefined && (shm === undefined || compareQuantities(shm, zero) <= 0)) {
    problems.push(`The size of /dev/shm is "${wishes.shm}", and should be an amount like 8G.`);
  }
  problems.push(...volumeProblems(wishes.volumes ?? [], wishes.shm !== undefined));
  if (wishes.workdir !== undefined && !wishes.workdir.startsWith('/')) {
    problems.push(`The working directory ${wishes.workdir} should begin with a slash: it is a folder of the image.`);
  }
  if (wishes.queue !== undefined && !isLabelValue(wishes.queue)) {
    problems.push(`The queue "${wishes.queue}" is no name of one: it becomes a label.`);
  }
  problems.push(...labelProblems(wishes, asked.nodeSelector));
  problems.push(...countProblems(wishes, name));
  const [problem, ...more] = problems;
  if (problem !== undefined) {
    const message = more.length === 0 ? problem : `Nothing was submitted: ${problems.length} things are wrong.`;
    throw new JobmanError(message, exitCode.usage, more.length === 0 ? [] : problems);
  }

  return {
    doubts,
    request: {
      name,
      namespace: wishes.namespace ?? null,
      context: wishes.context ?? null,
      image,
      command: wishes.command ?? null,
      args: wishes.args ?? null,
      flavor: asked.flavor,
      resources: withLimits(asked.resources),
      annotations: wishes.annotations ?? {},
      env: wishes.env ?? {},
      secrets: wishes.secrets ?? [],
      workdir: wishes.workdir ?? null,
      labels: wishes.labels ?? {},
      nodeSelector: { ...wishes.nodeSelector, ...asked.nodeSelector },
      // Nodes with devices are often closed to all pods that do not ask for one, by a taint with the name of the resource.
      tolerations: [
        ...Object.keys(asked.resources.requests)
          .filter(isExtended)
          .map((key): Toleration => ({ key, value: null, effect: 'NoSchedule' })),
        ...(wishes.tolerations ?? []),
      ],
      priorityClass: wishes.priorityClass ?? settings.job.priorityClassName,
      imagePullSecrets: [...new Set(wishes.imagePullSecrets)],
      shm: wishes.shm ?? null,
      volumes: wishes.volumes ?? [],
      serviceAccount: wishes.serviceAccount ?? null,
      parallelism: wishes.parallelism ?? null,
      completions: wishes.completions ?? null,
      backoffLimit: wishes.backoffLimit ?? 0,
      timeout: wishes.timeout ?? null,
      ttl: ttlOf(wishes, settings),
      suspend: wishes.suspend ?? false,
      queue: wishes.queue ?? null,
    },
  };
}

function endText(meant: string | undefined): string {
  return meant === undefined ? '.' : `; did you mean ${meant}?`;
}

interface Asked {
  readonly flavor: string | null;
  readonly resources: Resources;
  readonly nodeSelector: Readonly<Record<string, string>>;
}

/** The flavor that is named, else the requests of their own, else the default flavor; with the GPUs that are wished for. */
function askedFor(wishes: SubmitWishes, { settings, readFile }: SubmitSurroundings, doubts: string[]): Asked {
  const { default: usual, predefined } = settings.job.resources;
  const isDefault = wishes.flavor === undefined && wishes.resources === undefined;
  const said = isDefault ? usual : (wishes.flavor ?? null);
  if (isDefault && said !== null && !predefined.some(({ name }) => name === said)) {
    throw new JobmanError(
      `The settings name the flavor ${said} as the default (job.resources.default), and have none of that name.`,
      exitCode.failed,
      ['`jobman resources-flavors` shows those there are; -r names one for this job.'],
    );
  }
  const hasAmounts = wishes.cpu !== undefined || wishes.memory !== undefined;
  if (isDefault && said === null && !hasAmounts) {
    throw new JobmanError(
      'No resources flavor is named: name one with -r, or the needs of a pod with --cpu and --memory.',
      exitCode.usage,
      [
        `There are: ${predefined.map(({ name }) => name).join(', ') || 'none'}. The setting job.resources.default names one for every job.`,
      ],
    );
  }
  const flavor = said === null ? null : findFlavor(said, { predefined, readFile });
  const resources = flavor?.resources ?? wishes.resources ?? { requests: {}, limits: null };
  const plain = { flavor: flavor?.name ?? null, resources, nodeSelector: {} };
  const { cpu, memory } = wishes;
  const sized = hasAmounts ? withAmounts(plain, given({ cpu, memory }), isDefault ? [] : doubts) : plain;
  return wishes.gpus === undefined ? sized : withGpus(sized, wishes.gpus, settings, doubts);
}

/** The requests with these amounts; a limit of the flavor becomes the same amount, since it may not be less. */
function withAmounts(asked: Asked, amounts: Amounts, doubts: string[]): Asked {
  const { requests, limits } = asked.resources;
  const isSame = Object.entries(amounts).every(
    ([name, amount]) => requests[name] !== undefined && quantityKey(requests[name]) === quantityKey(amount),
  );
  if (isSame) return asked;
  if (asked.flavor !== null) doubts.push(otherThanFlavor(asked.flavor, Object.keys(amounts)));
  const limited = Object.fromEntries(Object.entries(amounts).filter(([name]) => limits?.[name] !== undefined));
  return {
    ...asked,
    flavor: null,
    resources: { requests: { ...requests, ...amounts }, limits: limits === null ? null : { ...limits, ...limited } },
  };
}

/** A flavor's name means one request, because jobs are counted by it and a cluster may replace a request by its flavor. */
function otherThanFlavor(flavor: string, flags: readonly string[]): string {
  const named = flags.map((flag) => `--${flag}`).join(' and ');
  return `The job is not recorded under the flavor ${flavor}, because ${named} ${flags.length === 1 ? 'changes' : 'change'} what it requests.`;
}

const usualGpu = 'nvidia.com/gpu';

/** The labels that the vendors' own node labellers write: NVIDIA's GPU feature discovery, AMD's k8s-device-plugin, Intel's rules. */
const modelLabels: Readonly<Record<string, string>> = {
  'nvidia.com': 'nvidia.com/gpu.product',
  'amd.com': 'amd.com/gpu.product-name',
  'gpu.intel.com': 'gpu.intel.com/product',
};

function withGpus(asked: Asked, wish: GpuWish, { jobsQueue }: ClusterSettings, doubts: string[]): Asked {
  const { gpuResources } = jobsQueue;
  const { requests, limits } = asked.resources;
  const own = Object.keys(requests).filter((name) => isGpu(name, gpuResources));
  const resource = wish.resource ?? own[0] ?? gpuResources[0] ?? usualGpu;
  const others = (amounts: Amounts): Amounts =>
    Object.fromEntries(Object.entries(amounts).filter(([name]) => name !== resource && !own.includes(name)));
  const amount = { [resource]: String(wish.count) };
  const isSame = own.length === 1 && own[0] === resource && Number(requests[resource]) === wish.count;
  if (asked.flavor !== null && !isSame) {
    doubts.push(otherThanFlavor(asked.flavor, ['gpus']));
  }
  const [domain = ''] = resource.split('/');
  const label = modelLabels[domain] ?? `${domain}/gpu.product`;
  return {
    flavor: isSame ? asked.flavor : null,
    resources: {
      requests: { ...others(requests), ...amount },
      limits: limits === null ? null : { ...others(limits), ...amount },
    },
    nodeSelector: wish.model === null ? {} : { [label]: wish.model },
  };
}

function ttlOf({ ttl }: SubmitWishes, { job }: ClusterSettings): Duration | null {
  const said = ttl ?? (job.ttl === 'none' ? 'none' : (parseDuration(job.ttl) ?? 'none'));
  return said === 'none' ? null : said;
}

function labelProblems({ labels = {}, nodeSelector = {}, queue }: SubmitWishes, ofGpus: Amounts): readonly string[] {
  const problems: string[] = [];
  for (const key of Object.keys(labels)) {
    if (isOwnLabel(key)) problems.push(`The label ${key} is written by jobman itself; choose another key.`);
    // The Job controller refuses a template whose labels differ from the ones that it adds.
    if (/^(?:batch\.kubernetes\.io\/|(?:controller-uid|job-name)$)/.test(key)) {
      problems.push(`The label ${key} is written by Kubernetes itself; choose another key.`);
    }
    if (key === clusterLabels.queue && queue !== undefined)
      problems.push(`The label ${key} and --queue both name a queue.`);
  }
  for (const [key, value] of Object.entries(ofGpus)) {
    const other = nodeSelector[key];
    if (other !== undefined && other !== value) {
      problems.push(`The node selector ${key}=${other} and the model of the GPUs (${value}) exclude each other.`);
    }
  }
  return problems;
}

function volumeProblems(volumes: readonly VolumeWish[], hasShm: boolean): readonly string[] {
  const paths = [...volumes.map(({ path }) => path.replace(/(.)\/+$/, '$1')), ...(hasShm ? ['/dev/shm'] : [])];
  const twice = paths.filter((path, index) => paths.indexOf(path) < index);
  return [...new Set(twice)].map((path) => `Two volumes would appear at ${path}.`);
}

function countProblems({ parallelism, completions }: SubmitWishes, name: string): readonly string[] {
  const problems: string[] = [];
  const isIndexed = (completions ?? parallelism ?? 1) > 1;
  // Pods of an indexed Job are hosts called <name>-<index>, and a host's name has no dot and 63 characters.
  const last = `-${(completions ?? parallelism ?? 1) - 1}`;
  if (isIndexed && name.includes('.'))
    problems.push(`The name ${name} has a dot, which a job of several pods cannot have.`);
  else if (isIndexed && name.length + last.length > 63) {
    problems.push(`The name ${name} is too long for a job of several pods: ${name}${last} should have 63 characters.`);
  }
  return problems;
}

/** The annotations of `-a`, an object of texts. Throws JobmanError (usage) with the line and column of each problem. */
export function annotationsIn(written: string): Readonly<Record<string, string>> {
  const called = 'annotations';
  const tree = jsonOf(written, called);
  const form = `{ "team": "vision" }`;
  const findings = newFindings();
  if (tree.kind !== 'map') {
    refuse(tree, [], findings, `write an object like ${form}`);
    throw jsonTrouble('The annotations are no object.', written, called, findings.problems);
  }
  for (const one of tree.repeated ?? []) refuse(one, [], findings, `"${one.name}" stands here again`);
  const found: Record<string, string> = {};
  for (const [name, entry] of tree.entries) {
    const is = plain(entry.value);
    if (!isQualifiedName(name)) refuse(entry, [], findings, `"${name}" is no key of an annotation`);
    else if (typeof is === 'string') found[name] = is;
    else {
      const meant = typeof is === 'number' || typeof is === 'boolean' ? `; write "${String(is)}"` : '';
      refuse(entry.value, [], findings, `"${name}" should be a text, and is ${shortened(is)}${meant}`);
    }
  }
  if (findings.problems.length > 0) {
    throw jsonTrouble('An annotation is a text under a key.', written, called, findings.problems);
  }
  return found;
}

/** A name that nobody has yet: `jobman-` and forty bits of chance (five bytes) as eight small letters and digits. */
export function freshJobName(chance: Uint8Array): string {
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
  let bits = chance.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let name = '';
  for (let at = 0; at < 8; at += 1) {
    name = `${alphabet[Number(bits % 32n)]}${name}`;
    bits /= 32n;
  }
  return `jobman-${name}`;
}
