// Flavors: a resource request with a name. They come from the settings, from a file or from the command line, always as
// the same JSON: { "name", "description"?, "resources": { "requests", "limits"? } }.

import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { isQualifiedName } from '../../manifest/kubernetes-words.ts';
import { jsonLines } from '../../schema/json.ts';
import { JsonTextError, isNull, plain, type Mapping, type Tree } from '../../schema/tree.ts';
import { refuse } from '../../schema/kinds.ts';
import { newFindings, type Found, type Report } from '../../schema/problems.ts';
import { parseJson } from '../../schema/yaml.ts';
import { exitCode, JobmanError } from '../errors.ts';
import {
  addQuantities,
  compareQuantities,
  isWholeQuantity,
  parseQuantity,
  quantityKey,
  quantityText,
  zero,
  type Quantity,
} from './quantity.ts';

/** Amounts by the name of the resource, as they were written. */
export type Amounts = Readonly<Record<string, string>>;

/** The requests of a container, and its limits if there are any. */
export interface Resources {
  readonly requests: Amounts;
  readonly limits: Amounts | null;
}

/** A named request. The name is seen by everybody in the cluster. */
export interface Flavor {
  readonly name: string;
  readonly description: string | null;
  readonly resources: Resources;
}

/** The flavor that a text holds. Throws JobmanError (usage) with every problem, each with its line and column in `called`. */
export function flavorIn(text: string, called: string): Flavor {
  const findings = newFindings();
  const flavor = readFlavor(jsonOf(text, called), findings);
  if (flavor === undefined || findings.problems.length > 0) {
    throw jsonTrouble(`${called} is no flavor.`, text, called, findings.problems);
  }
  return flavor;
}

/** The JSON of a text that somebody has written. Throws JobmanError (usage) with the place where it stops to be JSON. */
export function jsonOf(text: string, called: string): Tree {
  try {
    return parseJson(text, 'the text');
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    throw jsonTrouble(`${called} is not valid JSON.`, text, called, [error.found]);
  }
}

/** The error for problems of such a text: a line for each. */
export function jsonTrouble(message: string, text: string, called: string, problems: readonly Found[]): JobmanError {
  return new JobmanError(message, exitCode.usage, jsonLines(text, called, problems));
}

/** The flavor of a node; what is wrong with it is reported. Undefined when it can be none. */
export function readFlavor(tree: Tree, report: Report): Flavor | undefined {
  const form = '{ "name": "small", "resources": { "requests": { "cpu": "1", "memory": "1G" } } }';
  if (tree.kind !== 'map') return refuse(tree, [], report, `a flavor is an object like ${form}`);
  const members = membersOf(tree, ['name', 'description', 'resources'], 'a flavor', report);
  const name = textOf(members.get('name'), 'name', report);
  if (!members.has('name')) refuse(tree, [], report, 'a flavor needs a "name"');
  const description = textOf(members.get('description'), 'description', report);
  const resources = readResources(members.get('resources'), tree, report);
  return name === undefined || resources === undefined
    ? undefined
    : { name, description: description ?? null, resources };
}

function textOf(tree: Tree | undefined, name: string, report: Report): string | undefined {
  if (tree === undefined) return undefined;
  const value = plain(tree);
  if (typeof value === 'string' && value.trim() !== '') return value;
  if (name === 'description' && (value === null || value === '')) return undefined;
  return refuse(tree, [], report, `"${name}" should be a text`);
}

function readResources(tree: Tree | undefined, around: Tree, report: Report): Resources | undefined {
  if (tree === undefined) return refuse(around, [], report, 'a flavor needs "resources"');
  if (tree.kind !== 'map') return refuse(tree, [], report, '"resources" should be an object with "requests"');
  const members = membersOf(tree, ['requests', 'limits'], '"resources"', report);
  const requests = members.get('requests');
  if (requests === undefined) return refuse(tree, [], report, '"resources" needs "requests"');
  const limits = members.get('limits');
  const amounts = newFindings();
  const found = {
    requests: readAmounts(requests, 'requests', amounts),
    limits: limits === undefined || isNull(limits) ? null : readAmounts(limits, 'limits', amounts),
  };
  if (amounts.problems.length === 0) {
    for (const says of problemsTogether(found)) refuse(limits ?? requests, [], report, says);
  } else for (const problem of amounts.problems) report.problem(problem);
  return found;
}

function readAmounts(tree: Tree, called: 'requests' | 'limits', report: Report): Amounts {
  const amounts: Record<string, string> = {};
  if (tree.kind !== 'map') {
    refuse(tree, [], report, `"${called}" should be an object like { "cpu": "1", "memory": "1G" }`);
    return amounts;
  }
  for (const [name, value] of membersOf(tree, null, '', report)) {
    const written = plain(value);
    const isAmount = typeof written === 'string' || typeof written === 'number';
    const wrong = isAmount ? problemOfAmount(name, written) : 'should be an amount like "500m", "1G" or 1';
    if (wrong !== undefined) refuse(value, [], report, `"${called}.${name}" ${wrong}`);
    else amounts[name] = String(written);
  }
  return amounts;
}

/** The problem of one amount of a resource, as a phrase after its name; undefined if there is none. */
export function problemOfAmount(resource: string, written: string | number): string | undefined {
  if (!isResourceName(resource)) {
    const meant = /gpu/i.test(resource) ? 'nvidia.com/gpu' : didYouMean(resource, plainResources);
    return `is no resource of Kubernetes${meant === undefined ? '' : `; did you mean "${meant}"?`}`;
  }
  const quantity = parseQuantity(written);
  if (quantity === undefined) return `is "${written}", and should be an amount like "500m", "1G" or "2Gi"`;
  if (compareQuantities(quantity, zero) < 0) return `is ${written}, and cannot be less than 0`;
  if (isExtended(resource) && !isWholeQuantity(quantity)) return `is ${written}, and is counted in whole pieces`;
  return undefined;
}

/** The problems of requests and limits together: an API server refuses the same. */
export function problemsTogether({ requests, limits }: Resources): readonly string[] {
  return Object.entries(limits ?? {}).flatMap(([name, limit]) => {
    const [asked, most] = [parseQuantity(requests[name] ?? ''), parseQuantity(limit)];
    if (asked === undefined || most === undefined) return [];
    const order = compareQuantities(asked, most);
    if (mustBeEqual(name) && order !== 0) {
      return [`the limit of ${name} (${limit}) should equal its request (${requests[name]})`];
    }
    return order > 0 ? [`the limit of ${name} (${limit}) is less than its request (${requests[name]})`] : [];
  });
}

function membersOf(
  tree: Mapping,
  known: readonly string[] | null,
  of: string,
  report: Report,
): ReadonlyMap<string, Tree> {
  for (const one of tree.repeated ?? []) refuse(one, [], report, `"${one.name}" stands here again`);
  const found = new Map<string, Tree>();
  for (const [name, entry] of tree.entries) {
    if (known === null || known.includes(name)) found.set(name, entry.value);
    else refuse(entry, [], report, `${of} has no "${name}"`, didYouMean(name, known));
  }
  return found;
}

const plainResources = ['cpu', 'memory', 'ephemeral-storage'] as const;

function isResourceName(name: string): boolean {
  if ((plainResources as readonly string[]).includes(name) || /^hugepages-\d+[KMG]i$/.test(name)) return true;
  return name.includes('/') && isQualifiedName(name);
}

/** A resource of a device plugin: its domain is not kubernetes.io (https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/). */
export function isExtended(resource: string): boolean {
  const [domain = ''] = resource.split('/');
  return resource.includes('/') && domain !== 'kubernetes.io' && !domain.endsWith('.kubernetes.io');
}

/** Resources that cannot be overcommitted: the API server wants a limit that equals the request. */
function mustBeEqual(resource: string): boolean {
  return isExtended(resource) || resource.startsWith('hugepages-');
}

/** With the limits that an API server would miss: a resource that cannot be overcommitted has its request as its limit. */
export function withLimits({ requests, limits }: Resources): Resources {
  const copied = Object.fromEntries(
    Object.entries(requests).filter(([name]) => mustBeEqual(name) && limits?.[name] === undefined),
  );
  const all = { ...limits, ...copied };
  return { requests, limits: Object.keys(all).length === 0 ? null : all };
}

/** True of every extended resource, unless the settings (`jobsQueue.gpuResources`) list the ones that are GPUs. */
export function isGpu(resource: string, gpuResources: readonly string[]): boolean {
  return gpuResources.length === 0 ? isExtended(resource) : gpuResources.includes(resource);
}

/** How many GPUs are asked for, of all kinds together. */
export function gpuCount(requests: Amounts, gpuResources: readonly string[]): number {
  const counted = Object.entries(requests).filter(([name]) => isGpu(name, gpuResources));
  const sum = counted.reduce((total, [, amount]) => addQuantities(total, parseQuantity(amount) ?? zero), zero);
  return Number(sum.nanos / 1_000_000_000n);
}

/** The sum of several requests, each amount in its canonical form. What is no amount is left out. */
export function sumAmounts(all: readonly Amounts[]): Amounts {
  const sums = new Map<string, Quantity>();
  for (const [name, written] of all.flatMap((amounts) => Object.entries(amounts))) {
    const quantity = parseQuantity(written);
    if (quantity === undefined) continue;
    sums.set(name, addQuantities(sums.get(name) ?? zero, quantity));
  }
  return Object.fromEntries([...sums].map(([name, quantity]) => [name, quantityText(quantity)]));
}

/** The text by which equal requests are equal, however their amounts and order were written; asking for 0 is not asking. */
export function amountsKey(amounts: Amounts): string {
  return Object.entries(amounts)
    .map(([name, written]) => [name, quantityKey(written) ?? written] as const)
    .filter(([, amount]) => amount !== '0')
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, amount]) => `${name}=${amount}`)
    .join(',');
}

/** The sources of flavors: those of the settings, and files. */
export interface FlavorSources {
  readonly predefined: readonly Flavor[];
  /** The text of a file; undefined when there is none at that path. Throws JobmanError when it cannot be read. */
  readonly readFile: (path: string) => string | undefined;
}

/**
 * The flavor that somebody means: JSON itself, the name of a predefined one, or a file with its JSON. A name wins over a
 * file beside which one happens to stand; `./name` is always the file. Throws JobmanError (usage, or not found).
 */
export function findFlavor(said: string, { predefined, readFile }: FlavorSources): Flavor {
  const written = said.trim();
  if (/^[[{"]/.test(written)) return flavorIn(written, 'flavor');
  const named = predefined.find(({ name }) => name === written);
  if (named !== undefined) return named;
  const text = readFile(written);
  if (text !== undefined) return flavorIn(text, written);
  const names = predefined.map(({ name }) => name);
  const meant = didYouMean(written, names);
  const known = names.length === 0 ? 'The settings have none.' : `There are: ${names.join(', ')}.`;
  throw new JobmanError(
    `There is no flavor ${written}, and no file of that name.${meant === undefined ? '' : ` Did you mean ${meant}?`}`,
    exitCode.notFound,
    [`${known} \`jobman resources-flavors\` shows them.`],
  );
}
