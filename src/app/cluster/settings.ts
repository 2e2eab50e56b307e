// Settings of Kubernetes jobs: what each key means, and the files that say them, in layers. The template that came with
// the program is the lowest, `$JOBMAN_HOME/settings.json` stands over it, what `--settings` names over both. A key that a
// layer says replaces that of the one below; predefined flavors are merged by their names.

import { dirname, isAbsolute, join } from 'node:path';
import { parseDuration } from '../../manifest/durations.ts';
import { isQualifiedName } from '../../manifest/kubernetes-words.ts';
import { plainJson, type JsonNode } from '../json-text.ts';
import { everyLeast } from '../version-check.ts';
import {
  readKeys,
  settingKeys,
  settingsLayers,
  shortened,
  type SettingProblem,
  type SettingsFiles,
} from '../settings.ts';
import { isExtended, readFlavor, type Flavor, type JsonProblem } from './flavor.ts';

/** An annotation that every submitted Job gets. */
export interface SettingAnnotation {
  readonly key: string;
  /** The value, or with `env` the name of the variable that holds it; one that is not set gives no annotation. */
  readonly value: string;
  readonly valueType: 'string' | 'env';
}

/** What pods run as; what is null is left to the image and the cluster. */
export interface PodSecurity {
  readonly runAsUser: number | null;
  readonly runAsGroup: number | null;
  readonly fsGroup: number | null;
  readonly supplementalGroups: readonly number[];
}

/** All settings of Kubernetes jobs; each key's meaning stands in `clusterSettingKeys`. */
export interface ClusterSettings {
  readonly sharedNamespace: string;
  readonly sharedConfigmap: string;
  readonly jobsQueue: {
    readonly namespace: string;
    readonly configmap: string;
    readonly gpuResources: readonly string[];
  };
  readonly job: {
    readonly annotations: readonly SettingAnnotation[];
    readonly defaultImage: string | null;
    readonly imagePrefix: string | null;
    readonly userConfigmap: string | null;
    readonly priorityClassName: string | null;
    /** A length of time, or `none`. */
    readonly ttl: string;
    readonly securityContext: PodSecurity;
    readonly resources: {
      readonly default: string | null;
      readonly label: string;
      readonly predefined: readonly Flavor[];
    };
  };
  readonly newVersion: {
    readonly repository: string | null;
    readonly packageJsonPath: string | null;
    readonly customMessage: string | null;
    readonly check: string;
  };
  readonly kubeConfig: { readonly type: 'default' | 'cluster' | 'file'; readonly file: string | null };
  readonly harbor: {
    readonly url: string | null;
    readonly project: string | null;
    readonly caFile: string | null;
    readonly user: string | null;
    readonly password: string | null;
  };
  readonly kubernetes: { readonly keepLogs: boolean };
}

/** The settings in force, and which file says each key; a key that none says is not in it. */
export interface ClusterSettingsRead {
  readonly settings: ClusterSettings;
  readonly sources: ReadonlyMap<string, string>;
}

/** One kind of value: what it is called, and what is wrong with one (empty: nothing). */
interface Kind {
  readonly words: string;
  problems(node: JsonNode, key: string): readonly SettingProblem[];
}

/** One key. */
export interface ClusterSettingKey {
  /** `job.resources.default`. */
  readonly key: string;
  /** What it does, as a sentence for people. */
  readonly meaning: string;
  /** When no file says it. */
  readonly otherwise: unknown;
  readonly kind: Kind;
  /** Nobody is to see it on a screen. */
  readonly isSecret?: true;
}

// ------------------------------------------------------------------------------------------ kinds

/** A kind that looks at the plain value. */
function kind(words: string, isRight: (value: unknown) => boolean): Kind {
  return {
    words,
    problems(node, key) {
      const value = plainJson(node);
      if (isRight(value)) return [];
      return [{ at: node.at, says: `"${key}" should be ${words}, and is ${shortened(value)}` }];
    },
  };
}

const isText = (value: unknown): value is string => typeof value === 'string' && value.trim() !== '';
const isId = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;

const text = kind('a text', isText);
/** S4's own files hold empty texts for nothing. */
const textOrNull = kind('a text or null', (value) => value === null || typeof value === 'string');
const pathOrNull = kind('a path or null', (value) => value === null || typeof value === 'string');
/** A path, or an address as it is. */
const placeOrNull = kind('a path, an address, or null', (value) => value === null || typeof value === 'string');
const truth = kind('true or false', (value) => typeof value === 'boolean');
const idOrNull = kind('a number from 0 on, or null', (value) => value === null || isId(value));
const ids = kind('a list of numbers from 0 on', (value) => Array.isArray(value) && value.every(isId));
const resources = kind(
  'a list of extended resources, like ["nvidia.com/gpu", "amd.com/gpu"]',
  (value) => Array.isArray(value) && value.every((one) => typeof one === 'string' && isExtended(one)),
);
const annotationKey = kind(
  'the key of an annotation, like "jobman/flavor"',
  (value) => typeof value === 'string' && isQualifiedName(value),
);
const checkInterval = kind(
  'a length of time of at least a minute, like "24h" or "30m"',
  (value) => typeof value === 'string' && (parseDuration(value) ?? 0) >= everyLeast,
);
const intervalOrNone = kind(
  'a length of time, like "7d" or "12h", or "none"',
  (value) => typeof value === 'string' && (value === 'none' || parseDuration(value) !== undefined),
);
const kubeConfigType = kind('"default", "cluster" or "file"', (value) =>
  ['default', 'cluster', 'file'].includes(String(value)),
);
const address = kind(
  'an address like "https://harbor.example.com", or null',
  (value) => value === null || value === '' || (isText(value) && /^https?:$/.test(URL.parse(value)?.protocol ?? '')),
);

const annotations: Kind = {
  words: 'a list of annotations, or null',
  problems(node, key) {
    if (node.kind === 'single' && node.value === null) return [];
    if (node.kind !== 'array') return [{ at: node.at, says: `"${key}" should be a list of annotations, or null` }];
    return node.items.flatMap((item, index): readonly SettingProblem[] => {
      const { key: name, value, valueType = 'string', ...others } = plainObject(item);
      const at = item.at;
      const called = `"${key}[${index}]"`;
      const form = '{ "key": "team", "value": "vision", "valueType": "string" }';
      if (item.kind !== 'object') return [{ at, says: `${called} should be an object like ${form}` }];
      const [other] = Object.keys(others);
      if (other !== undefined) return [{ at, says: `${called} has a "${other}", and should be like ${form}` }];
      if (typeof name !== 'string' || !isQualifiedName(name)) {
        return [
          { at, says: `${called} should have the key of an annotation as its "key", and has ${shortened(name)}` },
        ];
      }
      if (typeof value !== 'string') {
        return [{ at, says: `${called} should have a text as its "value", and has ${shortened(value)}` }];
      }
      if (valueType !== 'string' && valueType !== 'env') {
        return [{ at, says: `${called} should have "string" or "env" as its "valueType"` }];
      }
      return [];
    });
  },
};

function plainObject(node: JsonNode): Readonly<Record<string, unknown>> {
  return node.kind === 'object' ? (plainJson(node) as Readonly<Record<string, unknown>>) : {};
}

const flavors: Kind = {
  words: 'a list of flavors, or null',
  problems(node, key) {
    if (node.kind === 'single' && node.value === null) return [];
    if (node.kind !== 'array') return [{ at: node.at, says: `"${key}" should be a list of flavors, or null` }];
    const problems: JsonProblem[] = [];
    const names = new Set<string>();
    for (const item of node.items) {
      const flavor = readFlavor(item, problems);
      if (flavor === undefined) continue;
      if (names.has(flavor.name)) {
        problems.push({
          at: item.at,
          says: `a second flavor is called "${flavor.name}"; each needs a name of its own`,
        });
      }
      names.add(flavor.name);
    }
    return problems;
  },
};

// ------------------------------------------------------------------------------------------ keys

/** Every key, in the order in which people are told of them. */
export const clusterSettingKeys: readonly ClusterSettingKey[] = [
  {
    key: 'sharedNamespace',
    kind: text,
    otherwise: 'default',
    meaning: 'Taken for the sake of older files; nothing reads it.',
  },
  {
    key: 'sharedConfigmap',
    kind: text,
    otherwise: 'jobman-jobs-config',
    meaning: 'Taken for the sake of older files; nothing reads it.',
  },
  {
    key: 'jobsQueue.namespace',
    kind: text,
    otherwise: 'default',
    meaning: 'The namespace of the ConfigMap that tells of all jobs those who may not list them.',
  },
  {
    key: 'jobsQueue.configmap',
    kind: text,
    otherwise: 'jobman-queue-position',
    meaning: 'The name of that ConfigMap.',
  },
  {
    key: 'jobsQueue.gpuResources',
    kind: resources,
    otherwise: [],
    meaning: 'The extended resources that count as GPUs; none: all of them.',
  },
  {
    key: 'job.annotations',
    kind: annotations,
    otherwise: [],
    meaning: 'Annotations of every job; one with the valueType `env` has the value of that variable.',
  },
  { key: 'job.defaultImage', kind: textOrNull, otherwise: null, meaning: 'The image where none is named.' },
  {
    key: 'job.imagePrefix',
    kind: textOrNull,
    otherwise: null,
    meaning: 'Stands before every image, as it is: `harbor.example.com/lab/`.',
  },
  {
    key: 'job.userConfigmap',
    kind: textOrNull,
    otherwise: null,
    meaning: "A ConfigMap in your namespace whose `ceph.gid` is added to the pods' groups.",
  },
  { key: 'job.priorityClassName', kind: textOrNull, otherwise: null, meaning: 'The PriorityClass of every job.' },
  {
    key: 'job.ttl',
    kind: intervalOrNone,
    otherwise: '7d',
    meaning: 'Kubernetes removes a job this long after its end; `none`: it keeps the job. Our copy of its logs stays.',
  },
  {
    key: 'job.securityContext.runAsUser',
    kind: idOrNull,
    otherwise: null,
    meaning: "The user that containers run as; null: the image's own.",
  },
  { key: 'job.securityContext.runAsGroup', kind: idOrNull, otherwise: null, meaning: 'Their group.' },
  {
    key: 'job.securityContext.fsGroup',
    kind: idOrNull,
    otherwise: null,
    meaning: 'The group that owns what volumes hold.',
  },
  { key: 'job.securityContext.supplementalGroups', kind: ids, otherwise: [], meaning: 'Further groups of the pods.' },
  {
    key: 'job.resources.default',
    kind: textOrNull,
    otherwise: null,
    meaning: 'The flavor of jobs that name none.',
  },
  {
    key: 'job.resources.label',
    kind: annotationKey,
    otherwise: 'jobman/flavor',
    meaning: "The annotation that holds the flavor's name; everybody in the cluster may see it.",
  },
  {
    key: 'job.resources.predefined',
    kind: flavors,
    otherwise: [],
    meaning: 'The flavors that a job may name. A file adds to those of the template, and replaces one by its name.',
  },
  {
    key: 'newVersion.repository',
    kind: placeOrNull,
    otherwise: null,
    meaning:
      'Where a newer version is looked for: a release (.tar.gz), a package.json, or a folder with one; null: nowhere.',
  },
  {
    key: 'newVersion.packageJsonPath',
    kind: textOrNull,
    otherwise: null,
    meaning: 'The end of the path of package.json in what is found there; null: `package.json`.',
  },
  {
    key: 'newVersion.customMessage',
    kind: textOrNull,
    otherwise: null,
    meaning: 'What is said where there is a newer version.',
  },
  {
    key: 'newVersion.check',
    kind: checkInterval,
    otherwise: '24h',
    meaning: 'The shortest time between two checks; at least a minute.',
  },
  {
    key: 'kubeConfig.type',
    kind: kubeConfigType,
    otherwise: 'default',
    meaning: '`default`: KUBECONFIG or ~/.kube/config; `cluster`: the pod that jobman runs in; `file`: the next key.',
  },
  { key: 'kubeConfig.file', kind: pathOrNull, otherwise: null, meaning: 'The kubeconfig of `file`.' },
  { key: 'harbor.url', kind: address, otherwise: null, meaning: 'Where Harbor is, for images.' },
  { key: 'harbor.project', kind: textOrNull, otherwise: null, meaning: 'The project there.' },
  {
    key: 'harbor.caFile',
    kind: pathOrNull,
    otherwise: null,
    meaning: "The certificates of Harbor's own authority, in PEM.",
  },
  {
    key: 'harbor.user',
    kind: textOrNull,
    otherwise: null,
    meaning: 'As whom Harbor is asked; null: as your docker login, or as nobody.',
  },
  { key: 'harbor.password', kind: textOrNull, otherwise: null, meaning: "That user's password.", isSecret: true },
  {
    key: 'kubernetes.keepLogs',
    kind: truth,
    otherwise: true,
    meaning: 'The controller keeps logs and history of your jobs, for when the cluster has thrown them away.',
  },
];

// ------------------------------------------------------------------------------------------ reading

/** Values of one file by their keys, as they were written. */
type Said = ReadonlyMap<string, unknown>;

/**
 * The settings in force. Throws JobmanError with every problem of a file at once, each with its line and column, as
 * `settingsLayers` otherwise. `userHome` is what `~/` in a path means; other relative paths start at their own file.
 */
export async function loadClusterSettings(
  given: SettingsFiles & { readonly userHome: string },
): Promise<ClusterSettingsRead> {
  const layers = (await settingsLayers(given)).map(({ text: written, path, called }) => ({
    called,
    said: saidIn(written, path, given.userHome),
  }));
  const sources = new Map(layers.flatMap(({ called, said }) => [...said.keys()].map((key) => [key, called] as const)));
  return { settings: mergedSettings(layers.map(({ said }) => said)), sources };
}

/** What a file says of Kubernetes jobs. Throws JobmanError with every problem; `path` is what it is called in them. */
export function saidIn(written: string, path: string, userHome: string): Said {
  const said = new Map<string, unknown>();
  const ours = [...new Set(settingKeys.map(({ key }) => key.split('.')[0] ?? key))];
  const table = { keys: clusterSettingKeys.map(({ key }) => key), elsewhere: ours };
  readKeys(written, path, table, (key, node) => {
    const setting = clusterSettingKeys.find((one) => one.key === key);
    if (setting === undefined) return [];
    const problems = setting.kind.problems(node, key);
    if (problems.length === 0) said.set(key, valueOf(setting, node, dirname(path), userHome));
    return problems;
  });
  return said;
}

function valueOf(setting: ClusterSettingKey, node: JsonNode, folder: string, userHome: string): unknown {
  const value = plainJson(node);
  if (setting.kind === flavors) {
    return node.kind === 'array' ? node.items.flatMap((item) => readFlavor(item, []) ?? []) : [];
  }
  if (setting.kind === annotations) {
    return ((value ?? []) as readonly Partial<SettingAnnotation>[]).map((one) => ({ valueType: 'string', ...one }));
  }
  // An empty text is how the older jobman's template says nothing.
  if (value === '' && setting.otherwise === null) return null;
  const isPath = setting.kind === pathOrNull || (setting.kind === placeOrNull && !String(value).includes('://'));
  if (isPath && typeof value === 'string') {
    if (value.startsWith('~/')) return join(userHome, value.slice(2));
    return isAbsolute(value) ? value : join(folder, value);
  }
  return value;
}

/** The layers as one, each over those before it, over the defaults. */
export function mergedSettings(layers: readonly Said[]): ClusterSettings {
  const values = new Map<string, unknown>(clusterSettingKeys.map(({ key, otherwise }) => [key, otherwise]));
  for (const [key, value] of layers.flatMap((layer) => [...layer])) {
    const isMerged = key === 'job.resources.predefined';
    values.set(key, isMerged ? mergedFlavors(values.get(key) as readonly Flavor[], value as readonly Flavor[]) : value);
  }
  const whole: Record<string, unknown> = {};
  for (const [key, value] of values) put(whole, key.split('.'), value);
  // Every key of the type is a key of the table, whose kind is the type of the field; a test holds the two together.
  return whole as unknown as ClusterSettings;
}

/** Those below with the ones of the same name replaced, in their place; the others behind them. */
function mergedFlavors(below: readonly Flavor[], above: readonly Flavor[]): readonly Flavor[] {
  const replaced = below.map((flavor) => above.find(({ name }) => name === flavor.name) ?? flavor);
  return [...replaced, ...above.filter(({ name }) => !below.some((flavor) => flavor.name === name))];
}

function put(into: Record<string, unknown>, [name = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) into[name] = value;
  else put((into[name] ??= {}) as Record<string, unknown>, rest, value);
}

/** The value of a key, for a list of them; `(set)` in the place of a secret. */
export function clusterValueAt(settings: ClusterSettings, { key, isSecret }: ClusterSettingKey): unknown {
  const value = key
    .split('.')
    .reduce<unknown>((section, name) => (section as Readonly<Record<string, unknown>>)[name], settings);
  return isSecret === true && value !== null ? '(set)' : value;
}
