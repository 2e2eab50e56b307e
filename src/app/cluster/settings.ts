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
  refined,
  orNull,
  objectOf,
  textWhere,
  textOrNullWhere,
  int,
  bool,
  enumOf,
  reportProblem,
  type Kind,
  type ValueOf,
} from '../../schema/kinds.ts';
import { keysOfTable, defineSetting, settingsOf, type SettingsOf, type SettingValues } from '../../schema/settings.ts';
import { ownSections, parseSettingValues, readLayers, type LayeredValues, type SettingsLayer } from '../settings.ts';
import { minCheckInterval } from '../version-check.ts';
import { isExtended } from './amounts.ts';
import { readFlavor, type Flavor } from './flavor.ts';

const text = textWhere('text', isNonEmpty);
const textOrNull = emptyAsNull('text or null');
const pathOrNull = emptyAsNull('a path or null');
const idOrNull = kindWhere(
  'a whole number of at least 0, or null',
  (value): value is number | null => value === null || (Number.isSafeInteger(value) && Number(value) >= 0),
);
const ids = listOf('a list of whole numbers', int(0));
const annotationKey = textWhere('the key of an annotation, like "jobman/flavor"', isQualifiedName);

/** The older jobman's template has empty texts for absent values. */
function emptyAsNull(description: string, fits: (text: string) => boolean = () => true): Kind<string | null> {
  return refined(
    textOrNullWhere(description, (text) => text === '' || fits(text)),
    (text) => (text === '' ? null : text),
  );
}

/** An `env` annotation names a variable. Without that variable there is no annotation. */
const annotation = refined(
  objectOf(
    '{ "key": "team", "value": "vision", "valueType": "string" }',
    { key: annotationKey, value: textWhere('text') },
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
        const message = `another flavor is also named "${name}"; names must be unique`;
        if (names.has(name)) reportProblem(item, [], report, message);
        names.add(name);
        return flavor;
      },
    };
    return orNull(flavors.description, listOf(flavors.description, one), []).read(tree, path, report);
  },
};

const table = {
  sharedNamespace: defineSetting(text, 'default', 'Not used. Accepted in files of the older program.'),
  sharedConfigmap: defineSetting(text, 'jobman-jobs-config', 'Not used. Accepted in files of the older program.'),
  jobsQueue: {
    namespace: defineSetting(
      text,
      'default',
      'Namespace of the ConfigMap with all jobs, for users who may not list them.',
    ),
    configmap: defineSetting(text, 'jobman-queue-position', 'Name of that ConfigMap.'),
    gpuResources: defineSetting(
      listOf('a list of extended resources', textWhere('an extended resource like "nvidia.com/gpu"', isExtended)),
      [],
      'Extended resources that count as GPUs. Empty: all of them.',
    ),
  },
  job: {
    annotations: defineSetting(
      orNull(annotations, listOf(annotations, annotation), []),
      [],
      'Annotations of every job. With the valueType `env`, the value is the name of an environment variable.',
    ),
    defaultImage: defineSetting(textOrNull, null, 'Image of jobs that name none.'),
    imagePrefix: defineSetting(textOrNull, null, 'Prefix of every image, such as `harbor.example.com/lab/`.'),
    userConfigmap: defineSetting(
      textOrNull,
      null,
      "ConfigMap in your namespace. Its `ceph.gid` is added to the pods' groups.",
    ),
    priorityClassName: defineSetting(textOrNull, null, 'PriorityClass of every job.'),
    ttl: defineSetting(
      textWhere(
        'a duration like "7d" or "12h", or "none"',
        (value) => value === 'none' || parseDuration(value) !== undefined,
      ),
      '7d',
      'Kubernetes removes a finished job after this time; `none`: never. The archive keeps its logs.',
    ),
    securityContext: {
      runAsUser: defineSetting(idOrNull, null, "User id of the containers; null: the image's own."),
      runAsGroup: defineSetting(idOrNull, null, 'Group id of the containers.'),
      fsGroup: defineSetting(idOrNull, null, 'Group id of the files on volumes.'),
      supplementalGroups: defineSetting(ids, [], 'More groups of the pods.'),
    },
    resources: {
      default: defineSetting(textOrNull, null, 'Flavor of jobs that name none.'),
      label: defineSetting(
        annotationKey,
        'jobman/flavor',
        "Key of the annotation with the flavor's name, which all users of the cluster can see.",
      ),
      predefined: defineSetting(
        flavors,
        [],
        'The available flavors. A file adds to those of the template and replaces one of the same name.',
      ),
    },
  },
  newVersion: {
    repository: defineSetting(
      emptyAsNull('a path, an address, or null'),
      null,
      'Source of newer versions: a release (.tar.gz), a package.json, or a folder with either; null: no check.',
      { isPath: true },
    ),
    packageJsonPath: defineSetting(
      textOrNull,
      null,
      'End of the path of package.json in that source; null: `package.json`.',
    ),
    customMessage: defineSetting(textOrNull, null, 'Message to add when there is a newer version.'),
    check: defineSetting(
      textWhere(
        'a duration of at least a minute, like "24h" or "30m"',
        (value) => (parseDuration(value) ?? 0) >= minCheckInterval,
      ),
      '24h',
      'Minimum time between two checks; at least a minute.',
    ),
  },
  kubeConfig: {
    type: defineSetting(
      enumOf('"default", "cluster" or "file"', ['default', 'cluster', 'file']),
      'default',
      '`default`: KUBECONFIG or ~/.kube/config; `cluster`: the pod that runs jobman; `file`: the file in kubeConfig.file.',
    ),
    file: defineSetting(pathOrNull, null, 'Path of the kubeconfig, if the type is `file`.', { isPath: true }),
  },
  harbor: {
    url: defineSetting(
      emptyAsNull('an address like "https://harbor.example.com", or null', isHttpUrl),
      null,
      'Address of the Harbor registry.',
    ),
    project: defineSetting(textOrNull, null, 'Harbor project of your images.'),
    caFile: defineSetting(pathOrNull, null, "Certificates of Harbor's own authority, in PEM.", { isPath: true }),
    user: defineSetting(textOrNull, null, 'User for Harbor; null: your docker login, or none.'),
    password: defineSetting(textOrNull, null, 'Password of that user.', { isSecret: true }),
  },
  kubernetes: {
    keepLogs: defineSetting(bool, true, 'Archive logs and history of your jobs, because the cluster deletes them.'),
  },
};

export type ClusterSettings = SettingsOf<typeof table>;

export interface LoadedClusterSettings extends Pick<LayeredValues, 'sources'> {
  readonly settings: ClusterSettings;
}

export const clusterSettingKeys = keysOfTable(table);

/** Throws JobmanError with every problem and its position. `~/` in a path is `userHome`. */
export async function loadClusterSettings(given: {
  readonly layers: readonly SettingsLayer[];
  readonly userHome: string;
}): Promise<LoadedClusterSettings> {
  const { values, sources } = await readLayers(given.layers, ({ text, path }, below) =>
    parseClusterSettings(text, path, given.userHome, below),
  );
  return { settings: clusterSettingsOf(values), sources };
}

/** Throws JobmanError with every problem, under the file name `path`. `below` are the values of the layers below. */
export async function parseClusterSettings(
  written: string,
  path: string,
  userHome: string,
  below: SettingValues = new Map(),
): Promise<SettingValues> {
  const values = new Map(await parseSettingValues(written, path, table, ownSections));
  for (const { key, isPath } of clusterSettingKeys) {
    const value = values.get(key);
    if (isPath !== true || typeof value !== 'string' || value.includes('://')) continue;
    const isOfHome = value.startsWith('~/');
    if (isOfHome || !isAbsolute(value))
      values.set(key, isOfHome ? join(userHome, value.slice(2)) : join(dirname(path), value));
  }
  const key = 'job.resources.predefined';
  const flavorsIn = (layer: SettingValues) => (layer.get(key) ?? []) as readonly Flavor[];
  return values.has(key) ? values.set(key, mergeFlavors(flavorsIn(below), flavorsIn(values))) : values;
}

export function clusterSettingsOf(values: SettingValues = new Map()): ClusterSettings {
  return settingsOf(table, values);
}

function mergeFlavors(below: readonly Flavor[], above: readonly Flavor[]): readonly Flavor[] {
  const replaced = below.map((flavor) => above.find(({ name }) => name === flavor.name) ?? flavor);
  return [...replaced, ...above.filter(({ name }) => !below.some((flavor) => flavor.name === name))];
}
