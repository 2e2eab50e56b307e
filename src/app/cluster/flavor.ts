// Flavors: named resource requests. Settings, files and the command line use the same JSON: { "name", "description"?,
// "resources": { "requests", "limits"? } }.

import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { isQualifiedName } from '../../manifest/kubernetes-values.ts';
import { formatJsonProblems } from '../../schema/json.ts';
import { isNull, toPlainValue, type Mapping, type Tree } from '../../schema/tree.ts';
import { reportProblem } from '../../schema/kinds.ts';
import { newFindings, type Findings, type FoundProblem, type Report } from '../../schema/problems.ts';
import { parseJson } from '../../schema/yaml.ts';
import { exitCode, JobmanError } from '../errors.ts';
import { compareQuantities, isWholeQuantity, parseQuantity, zero } from './quantity.ts';
import { isExtended, type Amounts } from './amounts.ts';

export interface Resources {
  readonly requests: Amounts;
  readonly limits: Amounts | null;
}

/** All users of the cluster see the name. */
export interface Flavor {
  readonly name: string;
  readonly description: string | null;
  readonly resources: Resources;
}

/** Throws JobmanError (usage) with every problem, each with its line and column in `source`. */
export function parseFlavor(text: string, source: string): Flavor {
  const findings = newFindings();
  const flavor = readFlavor(parseJsonText(text, source, findings), findings);
  if (flavor === undefined || findings.problems.length > 0) {
    throw jsonError(`${source} is not a flavor.`, text, source, findings.problems);
  }
  return flavor;
}

/** Reports repeated keys. Throws JobmanError (usage) with the position of the first syntax error. */
export function parseJsonText(text: string, source: string, findings: Findings): Tree {
  const tree = parseJson(text, findings);
  if (tree === undefined) throw jsonError(`${source} is not valid JSON.`, text, source, findings.problems);
  return tree;
}

export function jsonError(
  message: string,
  text: string,
  source: string,
  problems: readonly FoundProblem[],
): JobmanError {
  return new JobmanError(message, exitCode.usage, formatJsonProblems(text, source, problems));
}

/** The flavor at a node of the tree. Problems go to `report`; undefined if it cannot be a flavor. */
export function readFlavor(tree: Tree, report: Report): Flavor | undefined {
  const form = '{ "name": "small", "resources": { "requests": { "cpu": "1", "memory": "1G" } } }';
  if (tree.kind !== 'map') return reportProblem(tree, [], report, `a flavor is an object like ${form}`);
  const members = membersOf(tree, ['name', 'description', 'resources'], 'a flavor', report);
  const name = textOf(members.get('name'), 'name', report);
  if (!members.has('name')) reportProblem(tree, [], report, 'a flavor needs a "name"');
  const description = textOf(members.get('description'), 'description', report);
  const resources = readResources(members.get('resources'), tree, report);
  return name === undefined || resources === undefined
    ? undefined
    : { name, description: description ?? null, resources };
}

function textOf(tree: Tree | undefined, name: string, report: Report): string | undefined {
  if (tree === undefined) return undefined;
  const value = toPlainValue(tree);
  if (typeof value === 'string' && value.trim() !== '') return value;
  if (name === 'description' && (value === null || value === '')) return undefined;
  return reportProblem(tree, [], report, `"${name}" should be a text`);
}

function readResources(tree: Tree | undefined, parent: Tree, report: Report): Resources | undefined {
  if (tree === undefined) return reportProblem(parent, [], report, 'a flavor needs "resources"');
  if (tree.kind !== 'map') return reportProblem(tree, [], report, '"resources" should be an object with "requests"');
  const members = membersOf(tree, ['requests', 'limits'], '"resources"', report);
  const requests = members.get('requests');
  if (requests === undefined) return reportProblem(tree, [], report, '"resources" needs "requests"');
  const limits = members.get('limits');
  const amounts = newFindings();
  const found = {
    requests: readAmounts(requests, 'requests', amounts),
    limits: limits === undefined || isNull(limits) ? null : readAmounts(limits, 'limits', amounts),
  };
  if (amounts.problems.length === 0) {
    for (const message of limitProblems(found)) reportProblem(limits ?? requests, [], report, message);
  } else for (const problem of amounts.problems) report.problem(problem);
  return found;
}

function readAmounts(tree: Tree, field: 'requests' | 'limits', report: Report): Amounts {
  const amounts: Record<string, string> = {};
  if (tree.kind !== 'map') {
    reportProblem(tree, [], report, `"${field}" should be an object like { "cpu": "1", "memory": "1G" }`);
    return amounts;
  }
  for (const [name, value] of membersOf(tree, null, '', report)) {
    const written = toPlainValue(value);
    const isAmount = typeof written === 'string' || typeof written === 'number';
    const wrong = isAmount ? amountProblem(name, written) : 'should be an amount like "500m", "1G" or 1';
    if (wrong !== undefined) reportProblem(value, [], report, `"${field}.${name}" ${wrong}`);
    else amounts[name] = String(written);
  }
  return amounts;
}

export function amountProblem(resource: string, written: string | number): string | undefined {
  if (!isResourceName(resource)) {
    const suggestion = /gpu/i.test(resource) ? 'nvidia.com/gpu' : didYouMean(resource, plainResources);
    return `is not a Kubernetes resource${suggestion === undefined ? '' : `; did you mean "${suggestion}"?`}`;
  }
  const quantity = parseQuantity(written);
  if (quantity === undefined) return `should be an amount like "500m", "1G" or "2Gi", not "${written}"`;
  if (compareQuantities(quantity, zero) < 0) return `should not be negative: ${written}`;
  if (isExtended(resource) && !isWholeQuantity(quantity)) return `should be a whole number, not ${written}`;
  return undefined;
}

/** Problems that an API server would refuse too. */
export function limitProblems({ requests, limits }: Resources): readonly string[] {
  return Object.entries(limits ?? {}).flatMap(([name, limit]) => {
    const [request, maximum] = [parseQuantity(requests[name] ?? ''), parseQuantity(limit)];
    if (request === undefined || maximum === undefined) return [];
    const order = compareQuantities(request, maximum);
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
  const found = new Map<string, Tree>();
  for (const [name, entry] of tree.entries) {
    if (known === null || known.includes(name)) found.set(name, entry.value);
    else reportProblem(entry, [], report, `${of} has no "${name}"`, didYouMean(name, known));
  }
  return found;
}

const plainResources = ['cpu', 'memory', 'ephemeral-storage'] as const;

function isResourceName(name: string): boolean {
  if ((plainResources as readonly string[]).includes(name) || /^hugepages-\d+[KMG]i$/.test(name)) return true;
  return name.includes('/') && isQualifiedName(name);
}

/** The API server requires a limit equal to the request for a resource that cannot be overcommitted. */
function mustBeEqual(resource: string): boolean {
  return isExtended(resource) || resource.startsWith('hugepages-');
}

export function withLimits({ requests, limits }: Resources): Resources {
  const copied = Object.fromEntries(
    Object.entries(requests).filter(([name]) => mustBeEqual(name) && limits?.[name] === undefined),
  );
  const all = { ...limits, ...copied };
  return { requests, limits: Object.keys(all).length === 0 ? null : all };
}

export interface FlavorSources {
  readonly predefined: readonly Flavor[];
  /** Undefined if the file is absent. Throws JobmanError if it cannot be read. */
  readonly readFile: (path: string) => string | undefined;
}

/** A predefined name wins over a file of that name; `./name` is the file. Throws JobmanError (usage, not found). */
export function findFlavor(input: string, { predefined, readFile }: FlavorSources): Flavor {
  const written = input.trim();
  if (/^[[{"]/.test(written)) return parseFlavor(written, 'flavor');
  const named = predefined.find(({ name }) => name === written);
  if (named !== undefined) return named;
  const text = readFile(written);
  if (text !== undefined) return parseFlavor(text, written);
  const names = predefined.map(({ name }) => name);
  const suggestion = didYouMean(written, names);
  const known = names.length === 0 ? 'The settings have no flavors.' : `Flavors: ${names.join(', ')}.`;
  throw new JobmanError(
    `There is no flavor ${written}, and no file of that name.${suggestion === undefined ? '' : ` Did you mean ${suggestion}?`}`,
    exitCode.notFound,
    [`${known} Show them: jobman resources-flavors`],
  );
}
