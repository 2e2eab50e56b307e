// Submit request: a request from the command line or a manifest, completed from the settings until no decision is left.
// job-object.ts turns it into a Kubernetes Job.

import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Duration } from '../../core/model/time.ts';
import { parseDuration } from '../../manifest/durations.ts';
import type { ClusterManifest } from '../../manifest/kubernetes.ts';
import {
  isLabelValue,
  isQualifiedName,
  readImage,
  readJobName,
  type GpuRequest,
  type Toleration,
  type VolumeRequest,
} from '../../manifest/kubernetes-values.ts';
import { truncate, reportProblem } from '../../schema/kinds.ts';
import { newFindings } from '../../schema/problems.ts';
import { toPlainValue } from '../../schema/tree.ts';
import { exitCode, JobmanError } from '../errors.ts';
import { isExtended, isGpu, type Amounts } from './amounts.ts';
import {
  findFlavor,
  parseJsonText,
  jsonError,
  amountProblem,
  limitProblems,
  withLimits,
  type Resources,
} from './flavor.ts';
import { clusterLabels, isOwnLabel, type JobSecrets } from './job-object.ts';
import { compareQuantities, parseQuantity, quantityKey, zero } from './quantity.ts';
import type { ClusterSettings } from './settings.ts';

export type SubmitInput = ClusterManifest;

/** Without open decisions: an absent or null field is left to Kubernetes or the image. */
export interface SubmitRequest extends Omit<SubmitInput, 'cpu' | 'memory' | 'gpus' | 'ttl' | 'flavor' | 'jobSecrets'> {
  readonly name: string;
  readonly image: string;
  readonly flavor: string | null;
  readonly resources: Resources;
  readonly nodeSelector: Readonly<Record<string, string>>;
  readonly tolerations: readonly Toleration[];
  readonly imagePullSecrets: readonly string[];
  readonly ttl: Duration | null;
  readonly ownSecrets: JobSecrets | null;
}

export interface SubmitContext {
  readonly settings: ClusterSettings;
  /** Random: the name of a job without one, and the end of the name of its Secret. */
  readonly generatedName: string;
  readonly readFile: (path: string) => string | undefined;
}

export interface CheckedSubmit {
  readonly request: SubmitRequest;
  readonly warnings: readonly string[];
}

/** Flags override the manifest. A command or arguments in the flags replace both. */
export function mergeSubmitInputs(manifest: SubmitInput, flags: SubmitInput): SubmitInput {
  const { command, args, flavor, resources, ...rest } = manifest;
  const mergeMap = (key: 'annotations' | 'env' | 'labels' | 'nodeSelector') =>
    manifest[key] === undefined && flags[key] === undefined ? {} : { [key]: { ...manifest[key], ...flags[key] } };
  const mergeList = (key: 'secrets' | 'volumes' | 'tolerations' | 'imagePullSecrets') =>
    manifest[key] === undefined && flags[key] === undefined
      ? {}
      : { [key]: [...(manifest[key] ?? []), ...(flags[key] ?? [])] };
  return {
    ...rest,
    ...(flags.command === undefined && flags.args === undefined ? omitUndefined({ command, args }) : {}),
    ...(flags.flavor === undefined && flags.resources === undefined ? omitUndefined({ flavor, resources }) : {}),
    ...flags,
    ...mergeMap('annotations'),
    ...mergeMap('env'),
    ...mergeMap('labels'),
    ...mergeMap('nodeSelector'),
    ...mergeList('secrets'),
    ...mergeList('volumes'),
    ...mergeList('tolerations'),
    ...mergeList('imagePullSecrets'),
  };
}

/** Throws JobmanError (usage) with all problems at once. A missing (not found) or invalid flavor is reported alone. */
export function submitRequest(input: SubmitInput, context: SubmitContext): CheckedSubmit {
  const { settings } = context;
  const problems: string[] = [];
  const warnings: string[] = [];

  const name = input.name ?? context.generatedName;
  const readName = readJobName(name);
  if ('problem' in readName)
    problems.push(`The name "${name}" ${readName.problem}${formatSuggestion(readName.suggestion)}`);

  const image = `${settings.job.imagePrefix ?? ''}${input.image ?? settings.job.defaultImage ?? ''}`;
  if (input.image === undefined && settings.job.defaultImage === null) {
    problems.push('No image. Pass -i, or set job.defaultImage in the settings.');
  } else if (/\s/.test(image) || image === '') problems.push(`The image "${image}" is empty or contains a space.`);
  else {
    // The API server accepts such a Job, and its pod then holds its resources in InvalidImageName until it is deleted.
    const read = readImage(image);
    if ('problem' in read) problems.push(`The image ${image} ${read.problem}${formatSuggestion(read.suggestion)}`);
  }

  const requested = requestedResources(input, context, warnings);
  for (const [resource, amount] of Object.entries(requested.resources.requests)) {
    const wrong = amountProblem(resource, amount);
    if (wrong !== undefined) problems.push(`The request of ${resource} ${wrong}.`);
  }
  for (const message of limitProblems(requested.resources))
    problems.push(`${message[0]?.toUpperCase()}${message.slice(1)}.`);

  const shm = input.shm === undefined ? undefined : parseQuantity(input.shm);
  if (input.shm !== undefined && (shm === undefined || compareQuantities(shm, zero) <= 0)) {
    problems.push(`The size of /dev/shm should be an amount like 8G, not "${input.shm}".`);
  }
  problems.push(...volumeProblems(input.volumes ?? [], input.shm !== undefined));
  if (input.workdir !== undefined && !input.workdir.startsWith('/')) {
    problems.push(`The working directory ${input.workdir} should begin with a slash: it is a folder in the image.`);
  }
  if (input.queue !== undefined && !isLabelValue(input.queue)) {
    problems.push(`The queue name "${input.queue}" is not a valid label value.`);
  }
  problems.push(...labelProblems(input, requested.nodeSelector));
  problems.push(...countProblems(input, name));
  const [problem, ...more] = problems;
  if (problem !== undefined) {
    const message = more.length === 0 ? problem : `Nothing was submitted: the request has ${problems.length} problems.`;
    throw new JobmanError(message, exitCode.usage, more.length === 0 ? [] : problems);
  }

  const { cpu: _cpu, memory: _memory, gpus: _gpus, jobSecrets, ...kept } = input;
  const priorityClass = input.priorityClass ?? settings.job.priorityClassName;
  return {
    warnings,
    request: {
      ...kept,
      name,
      image,
      flavor: requested.flavor,
      resources: withLimits(requested.resources),
      nodeSelector: { ...input.nodeSelector, ...requested.nodeSelector },
      // Nodes with devices often repel other pods, by a taint with the name of the resource.
      tolerations: [
        ...Object.keys(requested.resources.requests)
          .filter(isExtended)
          .map((key): Toleration => ({ key, value: null, effect: 'NoSchedule' })),
        ...(input.tolerations ?? []),
      ],
      ...(priorityClass === null ? {} : { priorityClass }),
      imagePullSecrets: [...new Set(input.imagePullSecrets)],
      ttl: ttlOf(input, settings),
      ownSecrets:
        jobSecrets === undefined
          ? null
          : {
              name: `${name}-${context.generatedName}`,
              variables: Object.fromEntries(
                Object.entries(jobSecrets).map(([variable, one]) => [
                  variable,
                  one.kind === 'named' ? one.secret : null,
                ]),
              ),
            },
    },
  };
}

function formatSuggestion(suggestion: string | undefined): string {
  return suggestion === undefined ? '.' : `; did you mean ${suggestion}?`;
}

interface RequestedResources {
  readonly flavor: string | null;
  readonly resources: Resources;
  readonly nodeSelector: Readonly<Record<string, string>>;
}

function requestedResources(
  input: SubmitInput,
  { settings, readFile }: SubmitContext,
  warnings: string[],
): RequestedResources {
  const { default: defaultFlavor, predefined } = settings.job.resources;
  const isDefault = input.flavor === undefined && input.resources === undefined;
  const flavorName = isDefault ? defaultFlavor : (input.flavor ?? null);
  if (isDefault && flavorName !== null && !predefined.some(({ name }) => name === flavorName)) {
    throw new JobmanError(`The default flavor ${flavorName} (job.resources.default) does not exist.`, exitCode.failed, [
      'List flavors: jobman resources-flavors · Choose one for this job: -r NAME',
    ]);
  }
  const hasAmounts = input.cpu !== undefined || input.memory !== undefined;
  if (isDefault && flavorName === null && !hasAmounts) {
    throw new JobmanError('No resources. Choose a flavor with -r, or pass --cpu and --memory.', exitCode.usage, [
      `Flavors: ${predefined.map(({ name }) => name).join(', ') || 'none'}. The setting job.resources.default is the flavor of jobs that name none.`,
    ]);
  }
  const flavor = flavorName === null ? null : findFlavor(flavorName, { predefined, readFile });
  const resources = flavor?.resources ?? input.resources ?? { requests: {}, limits: null };
  const plain = { flavor: flavor?.name ?? null, resources, nodeSelector: {} };
  const { cpu, memory } = input;
  const sized = hasAmounts ? withAmounts(plain, omitUndefined({ cpu, memory }), isDefault ? [] : warnings) : plain;
  return input.gpus === undefined ? sized : withGpus(sized, input.gpus, settings, warnings);
}

/** Also sets the flavor's limits to these amounts, because a limit below the request is invalid. */
function withAmounts(requested: RequestedResources, amounts: Amounts, warnings: string[]): RequestedResources {
  const { requests, limits } = requested.resources;
  const isSame = Object.entries(amounts).every(
    ([name, amount]) => requests[name] !== undefined && quantityKey(requests[name]) === quantityKey(amount),
  );
  if (isSame) return requested;
  if (requested.flavor !== null) warnings.push(flavorNotRecorded(requested.flavor, Object.keys(amounts)));
  const limited = Object.fromEntries(Object.entries(amounts).filter(([name]) => limits?.[name] !== undefined));
  return {
    ...requested,
    flavor: null,
    resources: { requests: { ...requests, ...amounts }, limits: limits === null ? null : { ...limits, ...limited } },
  };
}

/** Jobs are counted by flavor, and a cluster may replace a request by its flavor: one name must mean one request. */
function flavorNotRecorded(flavor: string, flags: readonly string[]): string {
  const named = flags.map((flag) => `--${flag}`).join(' and ');
  return `The job does not count as ${flavor}, because ${named} ${flags.length === 1 ? 'changes' : 'change'} its requests.`;
}

const defaultGpuResource = 'nvidia.com/gpu';

/** Labels of the vendors' node labellers: NVIDIA GPU feature discovery, AMD k8s-device-plugin, Intel. */
const modelLabels: Readonly<Record<string, string>> = {
  'nvidia.com': 'nvidia.com/gpu.product',
  'amd.com': 'amd.com/gpu.product-name',
  'gpu.intel.com': 'gpu.intel.com/product',
};

function withGpus(
  requested: RequestedResources,
  gpus: GpuRequest,
  { jobsQueue }: ClusterSettings,
  warnings: string[],
): RequestedResources {
  const { gpuResources } = jobsQueue;
  const { requests, limits } = requested.resources;
  const own = Object.keys(requests).filter((name) => isGpu(name, gpuResources));
  const resource = gpus.resource ?? own[0] ?? gpuResources[0] ?? defaultGpuResource;
  const others = (amounts: Amounts): Amounts =>
    Object.fromEntries(Object.entries(amounts).filter(([name]) => name !== resource && !own.includes(name)));
  const amount = { [resource]: String(gpus.count) };
  const isSame = own.length === 1 && own[0] === resource && Number(requests[resource]) === gpus.count;
  if (requested.flavor !== null && !isSame) {
    warnings.push(flavorNotRecorded(requested.flavor, ['gpus']));
  }
  const [domain = ''] = resource.split('/');
  const label = modelLabels[domain] ?? `${domain}/gpu.product`;
  return {
    flavor: isSame ? requested.flavor : null,
    resources: {
      requests: { ...others(requests), ...amount },
      limits: limits === null ? null : { ...others(limits), ...amount },
    },
    nodeSelector: gpus.model === null ? {} : { [label]: gpus.model },
  };
}

function ttlOf({ ttl }: SubmitInput, { job }: ClusterSettings): Duration | null {
  const chosen = ttl ?? (job.ttl === 'none' ? 'none' : (parseDuration(job.ttl) ?? 'none'));
  return chosen === 'none' ? null : chosen;
}

function labelProblems({ labels = {}, nodeSelector = {}, queue }: SubmitInput, ofGpus: Amounts): readonly string[] {
  const problems: string[] = [];
  for (const key of Object.keys(labels)) {
    if (isOwnLabel(key)) problems.push(`jobman sets the label ${key} itself. Choose another key.`);
    // The Job controller refuses a template whose labels differ from those that it adds.
    if (/^(?:batch\.kubernetes\.io\/|(?:controller-uid|job-name)$)/.test(key)) {
      problems.push(`Kubernetes sets the label ${key} itself. Choose another key.`);
    }
    if (key === clusterLabels.queue && queue !== undefined)
      problems.push(`The label ${key} and --queue both name a queue.`);
  }
  for (const [key, value] of Object.entries(ofGpus)) {
    const other = nodeSelector[key];
    if (other !== undefined && other !== value) {
      problems.push(`The node selector ${key}=${other} and the GPU model (${value}) contradict each other.`);
    }
  }
  return problems;
}

function volumeProblems(volumes: readonly VolumeRequest[], hasShm: boolean): readonly string[] {
  const paths = [...volumes.map(({ path }) => path.replace(/(.)\/+$/, '$1')), ...(hasShm ? ['/dev/shm'] : [])];
  const twice = paths.filter((path, index) => paths.indexOf(path) < index);
  return [...new Set(twice)].map((path) => `Two volumes have the path ${path}.`);
}

function countProblems({ parallelism, completions }: SubmitInput, name: string): readonly string[] {
  const problems: string[] = [];
  const isIndexed = (completions ?? parallelism ?? 1) > 1;
  // Pods of an indexed Job have the hostname <name>-<index>: no dot, at most 63 characters.
  const last = `-${(completions ?? parallelism ?? 1) - 1}`;
  if (isIndexed && name.includes('.'))
    problems.push(`The name ${name} contains a dot. A job with several pods cannot have one.`);
  else if (isIndexed && name.length + last.length > 63) {
    problems.push(`The name ${name} is too long for a job with several pods: ${name}${last} exceeds 63 characters.`);
  }
  return problems;
}

/** The annotations of `-a`, an object of texts. Throws JobmanError (usage) with the position of each problem. */
export function parseAnnotations(written: string): Readonly<Record<string, string>> {
  const source = 'annotations';
  const findings = newFindings();
  const tree = parseJsonText(written, source, findings);
  const form = `{ "team": "vision" }`;
  if (tree.kind !== 'map') {
    reportProblem(tree, [], findings, `write an object like ${form}`);
    throw jsonError('The annotations are not a JSON object.', written, source, findings.problems);
  }
  const found: Record<string, string> = {};
  for (const [name, entry] of tree.entries) {
    const is = toPlainValue(entry.value);
    if (!isQualifiedName(name)) reportProblem(entry, [], findings, `"${name}" is not a valid annotation key`);
    else if (typeof is === 'string') found[name] = is;
    else {
      const suggestion = typeof is === 'number' || typeof is === 'boolean' ? `; write "${String(is)}"` : '';
      reportProblem(entry.value, [], findings, `"${name}" should be a text, not ${truncate(is)}${suggestion}`);
    }
  }
  if (findings.problems.length > 0) {
    throw jsonError('Annotations are keys with texts.', written, source, findings.problems);
  }
  return found;
}

/** `jobman-` and eight letters or digits from 40 random bits (five bytes). */
export function generateJobName(randomBytes: Uint8Array): string {
  const alphabet = 'abcdefghijklmnopqrstuvwxyz234567';
  let bits = randomBytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let name = '';
  for (let at = 0; at < 8; at += 1) {
    name = `${alphabet[Number(bits % 32n)]}${name}`;
    bits /= 32n;
  }
  return `jobman-${name}`;
}
