// Kubernetes: turns the sections of a manifest into the options of `jobman submit`. The cluster restarts and ends such
// a job by its own rules, so keys for jobman's recovery and setup do not apply.

import { omitUndefined } from '../core/model/omit-undefined.ts';
import { readJobName, type SecretReference } from './kubernetes-values.ts';
import { manifest, type Section, type SectionName } from './keys.ts';
import { warnAboutUnused } from './warnings.ts';
import { appliesTo } from '../schema/kinds.ts';
import { localPath, type ManifestContext } from './files.ts';
import { readSecrets, secretSources, type SecretSource } from './job-files.ts';
import type { SecretName } from '../core/model/spec.ts';
import { readNotify } from './notify.ts';
import type { NotifySpec } from '../core/model/notify.ts';
import type { Sections } from './sections.ts';
import { newFindings, toProblems, type Problem } from '../schema/problems.ts';
import { childOf, toPlainValue, type Tree } from '../schema/tree.ts';
import { parseText } from './yaml.ts';

type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;
type CamelCaseKeys<T> = { readonly [Name in keyof T as CamelCase<Name & string>]: T[Name] };

type KubernetesKeys = CamelCaseKeys<{
  [Name in keyof Section<'kubernetes'>]?: NonNullable<Section<'kubernetes'>[Name]>;
}>;

/** A manifest with a section `kubernetes`; an absent field was not given. keys/kubernetes.ts describes the keys. */
export interface ClusterManifest extends Omit<KubernetesKeys, 'resources'> {
  readonly name?: string;
  readonly resources?: {
    readonly requests: Readonly<Record<string, string>>;
    readonly limits: Readonly<Record<string, string>> | null;
  };
  readonly env?: Readonly<Record<string, string>>;
  readonly workdir?: string;
  /** Request of one pod; overrides the flavor's. */
  readonly cpu?: string;
  readonly memory?: string;
  /** The events to report and their recipients. */
  readonly notify?: NotifySpec;
  /** `job.secrets`, by variable. `submit` puts their values into a Secret of the Job. */
  readonly jobSecrets?: Readonly<Record<string, JobSecretSource>>;
}

export type JobSecretSource = { readonly kind: 'named'; readonly secret: SecretName } | SecretSource['from'];

/** Reads the sections and reports problems. Requires a section `kubernetes`. */
export function readKubernetes(sections: Sections, context: ManifestContext): ClusterManifest {
  const { folder, home } = context;
  const kubernetes: Partial<Section<'kubernetes'>> = sections.read('kubernetes') ?? {};
  const job: Partial<Section<'job'>> = sections.read('job') ?? {};
  const hasCommand = sections.has(['command']);
  const command: Partial<Section<'command'>> = hasCommand ? (sections.read('command') ?? {}) : {};
  sections.readUnused('vars');
  for (const [name, section] of Object.entries(manifest.keys ?? {}))
    if (!appliesTo(section, 'kubernetes')) sections.readUnused(name as SectionName);
  warnAboutUnused(sections, 'kubernetes');
  reportProblems(sections, kubernetes, job, hasCommand);

  const { flavor, resources, ...keys } = kubernetes;
  const { requests, limits } = resources ?? {};
  const workdir = command.workdir;
  if (workdir !== undefined && !workdir.startsWith('/')) {
    sections.problem(['command', 'workdir'], 'must begin with a slash: in a cluster it is a folder of the image');
  }
  const env = { ...job.env, ...command.env };
  const jobSecrets = readJobSecrets(
    sections,
    job.secrets ?? {},
    { env, references: kubernetes.secrets ?? [] },
    context,
  );
  return omitUndefined({
    ...camelCaseKeys(keys),
    name: job.name,
    // A flavor's name has no slash, so a value with a slash is a file, unless it is JSON, which begins with a brace.
    flavor: flavor?.includes('/') === true && !flavor.startsWith('{') ? localPath(flavor, folder, home) : flavor,
    resources: requests === undefined ? undefined : { requests, limits: limits ?? null },
    command: command.run === undefined ? kubernetes.command : ['sh', '-c', command.run],
    env: Object.keys(env).length === 0 ? undefined : env,
    workdir,
    timeout: kubernetes.timeout ?? job.max_runtime,
    notify: readNotify(sections, context),
    jobSecrets: Object.keys(jobSecrets).length === 0 ? undefined : jobSecrets,
  });
}

function readJobSecrets(
  sections: Sections,
  written: Readonly<Record<string, string>>,
  others: { readonly env: Readonly<Record<string, string>>; readonly references: readonly SecretReference[] },
  context: ManifestContext,
): Readonly<Record<string, JobSecretSource>> {
  const refs = readSecrets(sections, written, others.env, context);
  const own = Object.keys(refs).filter((variable) => refs[variable]?.kind !== 'named');
  for (const reference of others.references)
    if (reference.key !== null && Object.hasOwn(refs, reference.variable)) {
      const { variable } = reference;
      sections.problem(['job', 'secrets', variable], `${variable} is also in kubernetes.secrets; remove one of them`);
    }
  const sources = new Map(secretSources(sections, own, context).map(({ secret, from }) => [secret, from]));
  return Object.fromEntries(
    Object.entries(refs).flatMap(([variable, ref]) => {
      const source = ref.kind === 'named' ? ref : sources.get(variable);
      return source === undefined ? [] : [[variable, source]];
    }),
  );
}

function camelCaseKeys<T extends object>(keys: T): CamelCaseKeys<T> {
  const named = Object.entries(keys).map(([name, value]) => [
    name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    value as unknown,
  ]);
  return Object.fromEntries(named) as CamelCaseKeys<T>;
}

function reportProblems(
  sections: Sections,
  kubernetes: Partial<Section<'kubernetes'>>,
  job: Partial<Section<'job'>>,
  hasCommand: boolean,
): void {
  for (const section of ['tpu', 'hosts', 'local'] as const) {
    if (!sections.isPresent(section)) continue;
    sections.problem([section], 'cannot be combined with kubernetes; remove one of them');
    sections.readUnused(section);
  }
  if (job.name !== undefined) {
    const name = readJobName(job.name);
    if ('problem' in name) sections.problem(['job', 'name'], `"${job.name}" ${name.problem}`, name.suggestion);
  }
  if (kubernetes.flavor !== undefined && kubernetes.resources !== undefined) {
    sections.problem(['kubernetes', 'resources'], 'cannot be combined with kubernetes.flavor; remove one of them');
  }
  if (hasCommand && kubernetes.command !== undefined) {
    sections.problem(['kubernetes', 'command'], 'cannot be combined with command.run; remove one of them');
  } else if (hasCommand && kubernetes.args !== undefined) {
    sections.problem(['kubernetes', 'args'], 'cannot be combined with command.run; remove one of them');
  }
}

type JobFile = { readonly job: Readonly<Record<string, unknown>> } | { readonly problems: readonly Problem[] };

type Check = readonly [path: string, isValid: (value: unknown) => boolean, message: string];

const isAbsent = (value: unknown): boolean => value === undefined || value === null;
const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value: unknown): boolean => typeof value === 'string';
const isStringMap = (value: unknown): boolean => isObject(value) && Object.values(value as object).every(isText);
const needsTexts = 'must be an object of strings; put numbers in quotes';

/** The parts that jobman reads or changes. The cluster refuses every other mistake (`fieldValidation=Strict`). */
const jobChecks: readonly Check[] = [
  ['kind', (value) => value === 'Job', 'must be Job; for other objects use kubectl apply'],
  ['apiVersion', (value) => value === 'batch/v1', 'must be batch/v1'],
  ['metadata', (value) => isAbsent(value) || isObject(value), 'must be an object'],
  ['metadata.name', (value) => isAbsent(value) || isText(value), 'must be text'],
  ['metadata.namespace', (value) => isAbsent(value) || isText(value), 'must be text'],
  ['metadata.labels', (value) => isAbsent(value) || isStringMap(value), needsTexts],
  ['metadata.annotations', (value) => isAbsent(value) || isStringMap(value), needsTexts],
  ['spec', isObject, 'is required: the spec of the Job'],
  ['spec.template', isObject, 'is required: the template of the pods'],
  ['spec.template.metadata', (value) => isAbsent(value) || isObject(value), 'must be an object'],
  ['spec.template.metadata.labels', (value) => isAbsent(value) || isStringMap(value), needsTexts],
  [
    'spec.template.spec.containers',
    (value) => Array.isArray(value) && value.length > 0 && value.every(isObject),
    'must be a list of the containers of a pod',
  ],
];

/** Reads the one Job of the file. Never throws because of the text. */
export function readJobFile(text: string): JobFile {
  const findings = newFindings();
  // kubectl accepts an empty document at the end.
  const { tree, linePos } = parseText(text.replace(/\n---\s*$/, '\n'), [], findings);
  if (tree === undefined) return { problems: toProblems(findings.problems, linePos) };
  for (const [path, isValid, message] of jobChecks) {
    let at: Tree | undefined = tree;
    let { position } = tree;
    for (const key of path.split('.')) {
      at = at === undefined ? undefined : childOf(at, key);
      position = at?.position ?? position;
    }
    const isBelowProblem = findings.problems.some((other) => path.startsWith(`${other.path}.`));
    if (!isBelowProblem && !isValid(at === undefined ? undefined : toPlainValue(at)))
      findings.problem({ position, path, message });
  }
  if (findings.problems.length > 0) return { problems: toProblems(findings.problems, linePos) };
  return { job: toPlainValue(tree) as Readonly<Record<string, unknown>> };
}

/** True for a file with a Kubernetes object, even an invalid one: a manifest has neither key at its top. */
export function isKubernetesFile(text: string): boolean {
  return /^(?:apiVersion|kind)[ \t]*:/m.test(text) || /^\s*\{[^]*"apiVersion"\s*:/.test(text);
}
