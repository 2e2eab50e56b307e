// Kubernetes job file: a whole Job object as YAML or JSON. The cluster validates it; this file checks only the parts
// without which no Job can be created.

import { isMap, isNode, LineCounter, parseAllDocuments } from 'yaml';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { fileProblem, type Problem } from '../schema/problems.ts';

export type JobFile = { readonly job: Readonly<Record<string, unknown>> } | { readonly problems: readonly Problem[] };

const topKeys = ['apiVersion', 'kind', 'metadata', 'spec', 'status'];

/**
 * https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/; a submit omits the fields that
 * the cluster sets.
 */
const metadataKeys = `name generateName namespace labels annotations finalizers ownerReferences uid
  resourceVersion generation creationTimestamp deletionTimestamp deletionGracePeriodSeconds managedFields selfLink`.split(
  /\s+/,
);

/** Reads the one Job of the file. Never throws because of the text. */
export function readJobFile(text: string): JobFile {
  const lines = new LineCounter();
  const problems: Problem[] = [];
  const report = (offset: number, path: string, message: string, suggestion: string | null = null): void => {
    const { line, col } = lines.linePos(offset);
    problems.push({ ...fileProblem(message), path, suggestion, line, column: col });
  };
  const documents = parseAllDocuments(text, { lineCounter: lines, prettyErrors: false, logLevel: 'error' });
  const nonEmpty = (Array.isArray(documents) ? documents : []).filter(({ contents }) => contents !== null);
  for (const document of nonEmpty) {
    const [error] = document.errors;
    if (error !== undefined) report(error.pos[0], '', error.message.split('\n')[0] ?? 'is not valid YAML');
  }
  if (problems.length > 0) return { problems };
  const [document, second] = nonEmpty;
  if (document === undefined) return { problems: [fileProblem('the file is empty')] };
  if (second !== undefined) {
    const at = isNode(second.contents) ? second.contents.range?.[0] : undefined;
    report(at ?? 0, '', `the file has ${nonEmpty.length} objects, but a submit creates one Job`);
    return { problems };
  }
  const { contents } = document;
  if (!isMap(contents)) return { problems: [fileProblem('the file is not a Kubernetes object')] };

  const offsetOf = (path: readonly (string | number)[]): number => {
    const node: unknown = path.length === 0 ? contents : document.getIn(path, true);
    if (isNode(node) && node.range !== null && node.range !== undefined) return node.range[0];
    return path.length === 0 ? 0 : offsetOf(path.slice(0, -1));
  };
  let job: unknown;
  try {
    job = document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    return { problems: [fileProblem(error instanceof Error ? error.message : String(error))] };
  }
  const at = (value: unknown, ...path: readonly (string | number)[]): unknown =>
    path.reduce<unknown>(
      (within, key) =>
        typeof within === 'object' && within !== null ? (within as Record<string, unknown>)[key] : undefined,
      value,
    );
  const expect = (path: readonly string[], isValid: (value: unknown) => boolean, message: string): void => {
    if (!isValid(at(job, ...path))) report(offsetOf(path), path.join('.'), message);
  };
  const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);
  const isObjectOrAbsent = (value: unknown): boolean => value === undefined || value === null || isObject(value);
  const isStringMap = (value: unknown): boolean =>
    value === undefined ||
    value === null ||
    (isObject(value) && Object.values(value as object).every((one) => typeof one === 'string'));

  expect(
    ['kind'],
    (value) => value === 'Job',
    `must be Job, not ${formatValue(at(job, 'kind'))}; for other objects use kubectl apply`,
  );
  expect(
    ['apiVersion'],
    (value) => value === 'batch/v1',
    `must be batch/v1, not ${formatValue(at(job, 'apiVersion'))}`,
  );
  const expectKeys = (map: unknown, path: string, known: readonly string[]): void => {
    if (!isMap(map)) return;
    for (const { key } of map.items) {
      const name = String(isNode(key) ? key.toJSON() : key);
      if (known.includes(name)) continue;
      const offset = isNode(key) ? (key.range?.[0] ?? 0) : 0;
      report(offset, `${path}${name}`, 'is not a field of a Job', didYouMean(name, known) ?? null);
    }
  };
  expectKeys(contents, '', topKeys);
  expectKeys(document.get('metadata', true), 'metadata.', metadataKeys);
  expect(['metadata'], isObjectOrAbsent, 'must be an object');
  expect(['metadata', 'name'], (value) => value === undefined || typeof value === 'string', 'must be a text');
  expect(['metadata', 'namespace'], (value) => value === undefined || typeof value === 'string', 'must be a text');
  expect(['metadata', 'labels'], isStringMap, 'must be an object of texts; a number needs quotes');
  expect(['metadata', 'annotations'], isStringMap, 'must be an object of texts; a number needs quotes');
  expect(['spec'], isObject, 'is required: the spec of the Job');
  if (isObject(at(job, 'spec'))) {
    expect(['spec', 'template'], isObject, 'is required: the template of the pods');
    expect(['spec', 'template', 'metadata'], isObjectOrAbsent, 'must be an object');
    expect(
      ['spec', 'template', 'metadata', 'labels'],
      isStringMap,
      'must be an object of texts; a number needs quotes',
    );
    if (isObject(at(job, 'spec', 'template'))) {
      expect(
        ['spec', 'template', 'spec', 'containers'],
        (value) => Array.isArray(value) && value.length > 0 && value.every(isObject),
        'must be a list of the containers of a pod',
      );
    }
  }
  return problems.length > 0 ? { problems } : { job: job as Readonly<Record<string, unknown>> };
}

function formatValue(value: unknown): string {
  return value === undefined ? 'missing' : JSON.stringify(value);
}

/** True for a file with a Kubernetes object, even an invalid one: a manifest has neither key at its top. */
export function isKubernetesFile(text: string): boolean {
  return /^(?:apiVersion|kind)[ \t]*:/m.test(text) || /^\s*\{[^]*"apiVersion"\s*:/.test(text);
}
