// Settings of Kubernetes jobs: what each key means, and the files that say them, in layers. The template that came with
// the program is the lowest, `$JOBMAN_HOME/settings.json` stands over it, what `--settings` names over both. A key that a
// layer says replaces that of the one below; predefined flavors are merged by their names.

import { dirname, isAbsolute, join } from 'node:path';
import { parseDuration } from '../../manifest/durations.ts';
import { isQualifiedName } from '../../manifest/kubernetes-words.ts';
import {
  checked,
  isAddress,
  isFilled,
  listOf,
  mapped,
  orNull,
  record,
  textLike,
  textOrNullLike,
  textsLike,
  truth,
  wordOf,
  refuse,
  type Kind,
  type ValueOf,
} from '../../schema/kinds.ts';
import { keysOf, setting, settingsOf, type SettingsOf, type SettingValues } from '../../schema/settings.ts';
import { ownSections, settingsLayers, valuesIn, type SettingsFiles } from '../settings.ts';
import { everyLeast } from '../version-check.ts';
import { isExtended, readFlavor, type Flavor } from './flavor.ts';

const text = textLike('a text', isFilled);
const textOrNull = orNothing('a text or null');
const pathOrNull = orNothing('a path or null');
const isId = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;
const idOrNull = checked('a number from 0 on, or null', (value) => value === null || isId(value));
const ids = checked('a list of numbers from 0 on', (value) => Array.isArray(value) && value.every(isId));
const annotationKey = textLike('the key of an annotation, like "jobman/flavor"', isQualifiedName);

/** The older jobman's template holds empty texts for nothing. */
function orNothing(words: string, fits: (text: string) => boolean = () => true): Kind<string | null> {
  return mapped(
    textOrNullLike(words, (said) => said === '' || fits(said)),
    (said) => (said === '' ? null : said),
  );
}

/** The value of an `env` annotation is the name of a variable; one that is not set gives no annotation. */
const annotation = mapped(
  record(
    'an annotation',
    '{ "key": "team", "value": "vision", "valueType": "string" }',
    { key: annotationKey, value: textLike('a text', () => true) },
    { valueType: wordOf('"string" or "env"', ['string', 'env']) },
  ),
  (one) => ({ valueType: 'string' as const, ...one }),
);
const annotations = 'a list of annotations, or null';

export type SettingAnnotation = ValueOf<typeof annotation>;

const flavors: Kind<readonly Flavor[]> = {
  words: 'a list of flavors, or null',
  read(tree, path, report) {
    const names = new Set<string>();
    const one: Kind<Flavor> = {
      words: 'a flavor',
      read(item) {
        const flavor = readFlavor(item, report);
        if (flavor === undefined) return undefined;
        const { name } = flavor;
        const message = `a second flavor is called "${name}"; each needs a name of its own`;
        if (names.has(name)) refuse(item, [], report, message);
        names.add(name);
        return flavor;
      },
    };
    return orNull(flavors.words, listOf(flavors.words, one), []).read(tree, path, report);
  },
};

const table = {
  sharedNamespace: setting(text, 'default', 'Taken for the sake of older files; nothing reads it.'),
  sharedConfigmap: setting(text, 'jobman-jobs-config', 'Taken for the sake of older files; nothing reads it.'),
  jobsQueue: {
    namespace: setting(
      text,
      'default',
      'The namespace of the ConfigMap that tells of all jobs those who may not list them.',
    ),
    configmap: setting(text, 'jobman-queue-position', 'The name of that ConfigMap.'),
    gpuResources: setting(
      textsLike('a list of extended resources, like ["nvidia.com/gpu", "amd.com/gpu"]', isExtended),
      [],
      'The extended resources that count as GPUs; none: all of them.',
    ),
  },
  job: {
    annotations: setting(
      orNull(annotations, listOf(annotations, annotation), []),
      [],
      'Annotations of every job; one with the valueType `env` has the value of that variable.',
    ),
    defaultImage: setting(textOrNull, null, 'The image where none is named.'),
    imagePrefix: setting(textOrNull, null, 'Stands before every image, as it is: `harbor.example.com/lab/`.'),
    userConfigmap: setting(
      textOrNull,
      null,
      "A ConfigMap in your namespace whose `ceph.gid` is added to the pods' groups.",
    ),
    priorityClassName: setting(textOrNull, null, 'The PriorityClass of every job.'),
    ttl: setting(
      textLike(
        'a length of time, like "7d" or "12h", or "none"',
        (said) => said === 'none' || parseDuration(said) !== undefined,
      ),
      '7d',
      'Kubernetes removes a job this long after its end; `none`: it keeps the job. Our copy of its logs stays.',
    ),
    securityContext: {
      runAsUser: setting(idOrNull, null, "The user that containers run as; null: the image's own."),
      runAsGroup: setting(idOrNull, null, 'Their group.'),
      fsGroup: setting(idOrNull, null, 'The group that owns what volumes hold.'),
      supplementalGroups: setting(ids, [], 'Further groups of the pods.'),
    },
    resources: {
      default: setting(textOrNull, null, 'The flavor of jobs that name none.'),
      label: setting(
        annotationKey,
        'jobman/flavor',
        "The annotation that holds the flavor's name; everybody in the cluster may see it.",
      ),
      predefined: setting(
        flavors,
        [],
        'The flavors that a job may name. A file adds to those of the template, and replaces one by its name.',
      ),
    },
  },
  newVersion: {
    repository: setting(
      orNothing('a path, an address, or null'),
      null,
      'Where a newer version is looked for: a release (.tar.gz), a package.json, or a folder with one; null: nowhere.',
      { isPath: true },
    ),
    packageJsonPath: setting(
      textOrNull,
      null,
      'The end of the path of package.json in what is found there; null: `package.json`.',
    ),
    customMessage: setting(textOrNull, null, 'What is said where there is a newer version.'),
    check: setting(
      textLike(
        'a length of time of at least a minute, like "24h" or "30m"',
        (said) => (parseDuration(said) ?? 0) >= everyLeast,
      ),
      '24h',
      'The shortest time between two checks; at least a minute.',
    ),
  },
  kubeConfig: {
    type: setting(
      wordOf('"default", "cluster" or "file"', ['default', 'cluster', 'file']),
      'default',
      '`default`: KUBECONFIG or ~/.kube/config; `cluster`: the pod that jobman runs in; `file`: the next key.',
    ),
    file: setting(pathOrNull, null, 'The kubeconfig of `file`.', { isPath: true }),
  },
  harbor: {
    url: setting(
      orNothing('an address like "https://harbor.example.com", or null', isAddress),
      null,
      'Where Harbor is, for images.',
    ),
    project: setting(textOrNull, null, 'The project there.'),
    caFile: setting(pathOrNull, null, "The certificates of Harbor's own authority, in PEM.", { isPath: true }),
    user: setting(textOrNull, null, 'As whom Harbor is asked; null: as your docker login, or as nobody.'),
    password: setting(textOrNull, null, "That user's password.", { isSecret: true }),
  },
  kubernetes: {
    keepLogs: setting(
      truth,
      true,
      'The controller keeps logs and history of your jobs, for when the cluster has thrown them away.',
    ),
  },
};

export type ClusterSettings = SettingsOf<typeof table>;

/** The settings in force, and which file says each key; a key that none says is not in it. */
export interface ClusterSettingsRead {
  readonly settings: ClusterSettings;
  readonly sources: ReadonlyMap<string, string>;
}

/** Every key, in the order in which people are told of them. */
export const clusterSettingKeys = keysOf(table);

/**
 * The settings in force. Throws JobmanError with every problem of a file at once, each with its line and column, as
 * `settingsLayers` otherwise. `userHome` is what `~/` in a path means; other relative paths start at their own file.
 */
export async function loadClusterSettings(
  given: SettingsFiles & { readonly userHome: string },
): Promise<ClusterSettingsRead> {
  const layers: { readonly called: string; readonly said: SettingValues }[] = [];
  for (const { called, text, path } of await settingsLayers(given)) {
    layers.push({ called, said: await saidIn(text, path, given.userHome) });
  }
  const sources = new Map(layers.flatMap(({ called, said }) => [...said.keys()].map((key) => [key, called] as const)));
  return { settings: mergedSettings(layers.map(({ said }) => said)), sources };
}

/** The values of a file for Kubernetes jobs. Throws JobmanError with every problem; `path` is the name of the file in them. */
export async function saidIn(written: string, path: string, userHome: string): Promise<SettingValues> {
  const said = new Map(await valuesIn(written, path, table, ownSections));
  for (const { key, isPath } of clusterSettingKeys) {
    const value = said.get(key);
    if (isPath !== true || typeof value !== 'string' || value.includes('://')) continue;
    const isOfHome = value.startsWith('~/');
    if (isOfHome || !isAbsolute(value))
      said.set(key, isOfHome ? join(userHome, value.slice(2)) : join(dirname(path), value));
  }
  return said;
}

/** The layers as one, each over those before it, over the defaults. */
export function mergedSettings(layers: readonly SettingValues[]): ClusterSettings {
  const key = 'job.resources.predefined';
  const merged = new Map<string, unknown>(layers.flatMap((layer) => [...layer]));
  const all = layers.map((layer) => (layer.get(key) ?? []) as readonly Flavor[]);
  return settingsOf(table, merged.set(key, all.reduce(mergedFlavors, [])));
}

function mergedFlavors(below: readonly Flavor[], above: readonly Flavor[]): readonly Flavor[] {
  const replaced = below.map((flavor) => above.find(({ name }) => name === flavor.name) ?? flavor);
  return [...replaced, ...above.filter(({ name }) => !below.some((flavor) => flavor.name === name))];
}
