// Settings of Kubernetes jobs and their layers: the program's template, `$JOBMAN_HOME/settings.json`, the file of
// `--settings`. A key in a later layer replaces the earlier value; predefined flavors are merged by name.

import { dirname, isAbsolute, join } from 'node:path';
import { parseDuration } from '../../manifest/durations.ts';
import { isQualifiedName } from '../../manifest/kubernetes-values.ts';
import {
  kindWhere,
  isHttpUrl,
  isNonEmpty,
  listOf,
  mapKind,
  orNull,
  objectOf,
  textWhere,
  textOrNullWhere,
  textListWhere,
  bool,
  enumOf,
  reportProblem,
  type Kind,
  type ValueOf,
} from '../../schema/kinds.ts';
import { keysOfTable, defineSetting, settingsOf, type SettingsOf, type SettingValues } from '../../schema/settings.ts';
import { ownSections, settingsLayers, parseSettingValues, type SettingsFiles } from '../settings.ts';
import { minCheckInterval } from '../version-check.ts';
import { isExtended, readFlavor, type Flavor } from './flavor.ts';

const text = textWhere('a text', isNonEmpty);
const textOrNull = emptyAsNull('a text or null');
const pathOrNull = emptyAsNull('a path or null');
const isId = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
const idOrNull = kindWhere('a number from 0 on, or null', (value) => value === null || isId(value));
const ids = kindWhere('a list of numbers from 0 on', (value) => Array.isArray(value) && value.every(isId));
const annotationKey = textWhere('the key of an annotation, like "jobman/flavor"', isQualifiedName);

/** The older jobman's template has empty texts for absent values. */
function emptyAsNull(description: string, fits: (text: string) => boolean = () => true): Kind<string | null> {
  return mapKind(
    textOrNullWhere(description, (text) => text === '' || fits(text)),
    (text) => (text === '' ? null : text),
  );
}

/** An `env` annotation names a variable. Without that variable there is no annotation. */
const annotation = mapKind(
  objectOf(
    'an annotation',
    '{ "key": "team", "value": "vision", "valueType": "string" }',
    { key: annotationKey, value: textWhere('a text', () => true) },
    { valueType: enumOf('"string" or "env"', ['string', 'env']) },
  ),
  (one) => ({ valueType: 'string' as const, ...one }),
);
const annotations = 'a list of annotations, or null';

export type SettingAnnotation = ValueOf<typeof annotation>;

const flavors: Kind<readonly Flavor[]> = {
  description: 'a list of flavors, or null',
  read(tree, path, report) {
    const names = new Set<string>();
    const one: Kind<Flavor> = {
      description: 'a flavor',
      read(item) {
        const flavor = readFlavor(item, report);
        if (flavor === undefined) return undefined;
        const { name } = flavor;
        const message = `a second flavor is called "${name}"; each needs a name of its own`;
        if (names.has(name)) reportProblem(item, [], report, message);
        names.add(name);
        return flavor;
      },
    };
    return orNull(flavors.description, listOf(flavors.description, one), []).read(tree, path, report);
  },
};

const table = {
  sharedNamespace: defineSetting(text, 'default', 'Taken for the sake of older files; nothing reads it.'),
  sharedConfigmap: defineSetting(text, 'jobman-jobs-config', 'Taken for the sake of older files; nothing reads it.'),
  jobsQueue: {
    namespace: defineSetting(
      text,
      'default',
      'The namespace of the ConfigMap that tells of all jobs those who may not list them.',
    ),
    configmap: defineSetting(text, 'jobman-queue-position', 'The name of that ConfigMap.'),
    gpuResources: defineSetting(
      textListWhere('a list of extended resources, like ["nvidia.com/gpu", "amd.com/gpu"]', isExtended),
      [],
      'The extended resources that count as GPUs; none: all of them.',
    ),
  },
  job: {
    annotations: defineSetting(
      orNull(annotations, listOf(annotations, annotation), []),
      [],
      'Annotations of every job; one with the valueType `env` has the value of that variable.',
    ),
    defaultImage: defineSetting(textOrNull, null, 'The image where none is named.'),
    imagePrefix: defineSetting(textOrNull, null, 'Stands before every image, as it is: `harbor.example.com/lab/`.'),
    userConfigmap: defineSetting(
      textOrNull,
      null,
      "A ConfigMap in your namespace whose `ceph.gid` is added to the pods' groups.",
    ),
    priorityClassName: defineSetting(textOrNull, null, 'The PriorityClass of every job.'),
    ttl: defineSetting(
      textWhere(
        'a length of time, like "7d" or "12h", or "none"',
        (said) => said === 'none' || parseDuration(said) !== undefined,
      ),
      '7d',
      'Kubernetes removes a job this long after its end; `none`: it keeps the job. Our copy of its logs stays.',
    ),
    securityContext: {
      runAsUser: defineSetting(idOrNull, null, "The user that containers run as; null: the image's own."),
      runAsGroup: defineSetting(idOrNull, null, 'Their group.'),
      fsGroup: defineSetting(idOrNull, null, 'The group that owns what volumes hold.'),
      supplementalGroups: defineSetting(ids, [], 'Further groups of the pods.'),
    },
    resources: {
      default: defineSetting(textOrNull, null, 'The flavor of jobs that name none.'),
      label: defineSetting(
        annotationKey,
        'jobman/flavor',
        "The annotation that holds the flavor's name; everybody in the cluster may see it.",
      ),
      predefined: defineSetting(
        flavors,
        [],
        'The flavors that a job may name. A file adds to those of the template, and replaces one by its name.',
      ),
    },
  },
  newVersion: {
    repository: defineSetting(
      emptyAsNull('a path, an address, or null'),
      null,
      'Where a newer version is looked for: a release (.tar.gz), a package.json, or a folder with one; null: nowhere.',
      { isPath: true },
    ),
    packageJsonPath: defineSetting(
      textOrNull,
      null,
      'The end of the path of package.json in what is found there; null: `package.json`.',
    ),
    customMessage: defineSetting(textOrNull, null, 'What is said where there is a newer version.'),
    check: defineSetting(
      textWhere(
        'a length of time of at least a minute, like "24h" or "30m"',
        (said) => (parseDuration(said) ?? 0) >= minCheckInterval,
      ),
      '24h',
      'The shortest time between two checks; at least a minute.',
    ),
  },
  kubeConfig: {
    type: defineSetting(
      enumOf('"default", "cluster" or "file"', ['default', 'cluster', 'file']),
      'default',
      '`default`: KUBECONFIG or ~/.kube/config; `cluster`: the pod that jobman runs in; `file`: the next key.',
    ),
    file: defineSetting(pathOrNull, null, 'The kubeconfig of `file`.', { isPath: true }),
  },
  harbor: {
    url: defineSetting(
      emptyAsNull('an address like "https://harbor.example.com", or null', isHttpUrl),
      null,
      'Where Harbor is, for images.',
    ),
    project: defineSetting(textOrNull, null, 'The project there.'),
    caFile: defineSetting(pathOrNull, null, "The certificates of Harbor's own authority, in PEM.", { isPath: true }),
    user: defineSetting(textOrNull, null, 'As whom Harbor is asked; null: as your docker login, or as nobody.'),
    password: defineSetting(textOrNull, null, "That user's password.", { isSecret: true }),
  },
  kubernetes: {
    keepLogs: defineSetting(
      bool,
      true,
      'The controller keeps logs and history of your jobs, for when the cluster has thrown them away.',
    ),
  },
};

export type ClusterSettings = SettingsOf<typeof table>;

/** `sources`: the file that sets each key; a key with its default is absent. */
export interface LoadedClusterSettings {
  readonly settings: ClusterSettings;
  readonly sources: ReadonlyMap<string, string>;
}

export const clusterSettingKeys = keysOfTable(table);

/**
 * Throws JobmanError with every problem and its position, and otherwise like `settingsLayers`. `~/` in a path is
 * `userHome`; other relative paths start at their own file.
 */
export async function loadClusterSettings(
  given: SettingsFiles & { readonly userHome: string },
): Promise<LoadedClusterSettings> {
  const layers: { readonly name: string; readonly values: SettingValues }[] = [];
  for (const { name, text, path } of await settingsLayers(given)) {
    layers.push({ name, values: await parseClusterSettings(text, path, given.userHome) });
  }
  const sources = new Map(layers.flatMap(({ name, values }) => [...values.keys()].map((key) => [key, name] as const)));
  return { settings: mergeSettings(layers.map(({ values }) => values)), sources };
}

/** Throws JobmanError with every problem, under the file name `path`. */
export async function parseClusterSettings(written: string, path: string, userHome: string): Promise<SettingValues> {
  const values = new Map(await parseSettingValues(written, path, table, ownSections));
  for (const { key, isPath } of clusterSettingKeys) {
    const value = values.get(key);
    if (isPath !== true || typeof value !== 'string' || value.includes('://')) continue;
    const isOfHome = value.startsWith('~/');
    if (isOfHome || !isAbsolute(value))
      values.set(key, isOfHome ? join(userHome, value.slice(2)) : join(dirname(path), value));
  }
  return values;
}

export function mergeSettings(layers: readonly SettingValues[]): ClusterSettings {
  const key = 'job.resources.predefined';
  const merged = new Map<string, unknown>(layers.flatMap((layer) => [...layer]));
  const all = layers.map((layer) => (layer.get(key) ?? []) as readonly Flavor[]);
  return settingsOf(table, merged.set(key, all.reduce(mergeFlavors, [])));
}

function mergeFlavors(below: readonly Flavor[], above: readonly Flavor[]): readonly Flavor[] {
  const replaced = below.map((flavor) => above.find(({ name }) => name === flavor.name) ?? flavor);
  return [...replaced, ...above.filter(({ name }) => !below.some((flavor) => flavor.name === name))];
}
