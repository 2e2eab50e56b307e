// Kubeconfig: which cluster is meant, where it is, and who we are there (docs/decisions/kubernetes-client.md says why not the client
// library). The format: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/

import { existsSync, readFileSync, statSync } from 'node:fs';
import { delimiter, dirname, isAbsolute, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import type { ClusterOptions } from '../../app/cluster/cluster.ts';
import type { ClusterSettings } from '../../app/cluster/settings.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { readRegularFile } from '../../app/files.ts';

/** The surroundings that decide which kubeconfig is read. */
export interface KubeconfigPlace {
  readonly setting: ClusterSettings['kubeConfig'];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly userHome: string;
  /** Relative paths of KUBECONFIG start here. */
  readonly cwd: string;
  /** Where a pod finds its service account; another folder in tests. */
  readonly accountFolder?: string;
}

/** One context, with all that it leads to. Files named in it are absolute. */
export interface KubeContext {
  readonly name: string;
  readonly namespace: string;
  readonly cluster: KubeCluster;
  readonly user: KubeUser;
  readonly userName: string;
  /** For messages: the file that says it, or `the service account of this pod`. */
  readonly from: string;
}

type KubeCluster = ValuesOf<typeof clusterKinds> & { readonly server: string };

/** A kubeconfig's `user`, in its own words. */
export type KubeUser = Omit<ValuesOf<typeof userKinds>, 'exec' | 'auth-provider'> & {
  readonly exec?: KubeExec;
  readonly 'auth-provider'?: { readonly name: string; readonly config?: Readonly<Record<string, unknown>> };
};

/** A program that knows how to log in. */
export type KubeExec = ValuesOf<typeof execKinds> & { readonly command: string };

const accountFolderOfPods = '/var/run/secrets/kubernetes.io/serviceaccount';

const usualNamespace = 'default';

/** Whether a kubeconfig exists, or we run in a pod. Reads no content, so it is cheap enough for commands that may do without a cluster. */
export function namesCluster(place: KubeconfigPlace): boolean {
  return place.setting.type === 'cluster'
    ? inPod(place)
    : filesOf(place).some((file) => existsSync(file)) || inPod(place);
}

/**
 * The context that is meant. Throws JobmanError: unreachable when nothing names a cluster, not found for a context that is
 * not there (with those that are), usage for a file that is none.
 */
export async function readKubeContext(place: KubeconfigPlace, options: ClusterOptions): Promise<KubeContext> {
  const { setting } = place;
  const files = setting.type === 'cluster' ? [] : filesOf(place).filter((file) => existsSync(file));
  if (files.length === 0) {
    const pod = setting.type !== 'file' && inPod(place) ? contextOfPod(place, options) : undefined;
    if (pod === undefined) throw noKubeconfig(place);
    if (options.context !== undefined && options.context !== pod.name) {
      throw new JobmanError(
        `There is no context ${options.context}: no kubeconfig was found, only the service account of this pod.`,
        exitCode.notFound,
      );
    }
    return pod;
  }
  const merged = mergedConfig(files.map(configIn));
  const called = files.join(', ');
  const wanted = options.context ?? merged.current;
  const names = [...merged.contexts.keys()];
  if (wanted === undefined || wanted === '') {
    throw new JobmanError(`The kubeconfig ${called} chooses no context.`, exitCode.unreachable, [
      `Say --context, or choose one with kubectl config use-context: ${names.join(', ') || 'there is none'}.`,
    ]);
  }
  const context = merged.contexts.get(wanted);
  if (context === undefined) {
    const meant = didYouMean(wanted, names);
    throw new JobmanError(`The kubeconfig ${called} has no context ${wanted}.`, exitCode.notFound, [
      meant === undefined ? `There is: ${names.join(', ') || 'none'}.` : `Did you mean ${meant}?`,
    ]);
  }
  const refuse = refusing(called);
  refuse(`The context ${wanted}`, context, contextKinds);
  const cluster = merged.clusters.get(context.cluster ?? '');
  const user = merged.users.get(context.user ?? '') ?? {};
  if (cluster !== undefined) refuse(`The cluster ${context.cluster}`, cluster, clusterKinds);
  refuse(`The user ${context.user}`, user, userKinds);
  if (user.exec !== undefined) refuse(`The section exec of the user ${context.user}`, user.exec, execKinds);
  if (cluster?.server === undefined) {
    throw new JobmanError(
      `The context ${wanted} of ${called} names the cluster ${String(context.cluster)}, and no server stands under that name.`,
      exitCode.unreachable,
    );
  }
  if (!/^https?:\/\//.test(cluster.server) || URL.parse(cluster.server) === null) {
    throw new JobmanError(
      `The server of the context ${wanted} in ${called} is ${cluster.server}, and should be like https://10.0.0.1:6443.`,
      exitCode.unreachable,
    );
  }
  return {
    name: wanted,
    namespace: options.namespace ?? context.namespace ?? usualNamespace,
    cluster: cluster as KubeCluster,
    user,
    userName: context.user ?? 'nobody',
    from: called,
  };
}

function filesOf({ setting, env, userHome, cwd }: KubeconfigPlace): readonly string[] {
  if (setting.type === 'file') return setting.file === null ? [] : [setting.file];
  const named = (env['KUBECONFIG'] ?? '').split(delimiter).filter((file) => file !== '');
  return named.length === 0 ? [join(userHome, '.kube', 'config')] : named.map((file) => resolve(cwd, file));
}

function noKubeconfig(place: KubeconfigPlace): JobmanError {
  if (place.setting.type === 'cluster') {
    return new JobmanError(
      'The settings say that jobman runs in a pod (kubeConfig.type), and there is no service account here.',
      exitCode.unreachable,
    );
  }
  const files = filesOf(place);
  return new JobmanError(
    files.length === 0
      ? 'The settings say that a kubeconfig is to be read (kubeConfig.type), and not which (kubeConfig.file).'
      : `No cluster is known here: there is no kubeconfig ${files.join(', ')}.`,
    exitCode.unreachable,
    ['Whoever runs the cluster has one for you; it belongs at ~/.kube/config, or where KUBECONFIG says.'],
  );
}

// ------------------------------------------------------------------------------------------ files

type RawContext = ValuesOf<typeof contextKinds>;

interface Merged {
  readonly current: string | undefined;
  readonly contexts: ReadonlyMap<string, RawContext>;
  readonly clusters: ReadonlyMap<string, Partial<KubeCluster>>;
  readonly users: ReadonlyMap<string, KubeUser>;
}

const pathKeys = ['certificate-authority', 'client-certificate', 'client-key', 'tokenFile'];

function configIn(file: string): Merged {
  let text: string;
  try {
    text = isPipe(file) ? pipedText(file) : readRegularFile(file).toString('utf8');
  } catch (error) {
    throw new JobmanError(`The kubeconfig ${file} cannot be read: ${reasonOf(error)}.`, exitCode.unreachable);
  }
  let whole: unknown;
  try {
    whole = parse(text);
  } catch (error) {
    const [first = ''] = reasonOf(error).split('\n');
    throw new JobmanError(`The kubeconfig ${file} is no YAML.`, exitCode.usage, [first], { cause: error });
  }
  if (!isObject(whole)) throw new JobmanError(`The kubeconfig ${file} is empty.`, exitCode.unreachable);
  const current = whole['current-context'];
  return {
    current: typeof current === 'string' && current !== '' ? current : undefined,
    contexts: namedIn(whole['contexts'], 'context', file),
    clusters: namedIn(whole['clusters'], 'cluster', file),
    users: namedIn(whole['users'], 'user', file),
  };
}

/** Whether the path is a pipe that this process has inherited, as `KUBECONFIG=<(decrypt config)` of a shell gives it. */
function isPipe(path: string): boolean {
  return /^\/(?:dev|proc\/self)\/fd\/\d+$/.test(path) && statSync(path, { throwIfNoEntry: false })?.isFIFO() === true;
}

/** The content of each pipe: reading takes it away. */
const piped = new Map<string, string>();

function pipedText(path: string): string {
  // By its number: opened by its path, a named pipe without a writer would be waited for.
  const text = piped.get(path) ?? readFileSync(Number(path.slice(path.lastIndexOf('/') + 1)), 'utf8');
  piped.set(path, text);
  return text;
}

function namedIn<T>(list: unknown, field: string, file: string): ReadonlyMap<string, T> {
  const found = new Map<string, T>();
  for (const entry of Array.isArray(list) ? list : []) {
    if (!isObject(entry) || typeof entry['name'] !== 'string') continue;
    const value = isObject(entry[field]) ? withoutNulls(entry[field]) : {};
    for (const key of pathKeys) {
      const path = value[key];
      if (typeof path === 'string' && path !== '' && !isAbsolute(path)) value[key] = join(dirname(file), path);
    }
    // A program that logs in is found on the path, unless its name is a path itself.
    const run = value['exec'];
    if (isObject(run) && typeof run['command'] === 'string' && run['command'].includes('/')) {
      value['exec'] = { ...withoutNulls(run), command: resolve(dirname(file), run['command']) };
    }
    if (!found.has(entry['name'])) found.set(entry['name'], value as T);
  }
  return found;
}

/** A key without a value is as if it were not there, as for kubectl. */
function withoutNulls(map: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(map).filter(([, value]) => value !== null));
}

/** The values of each kind. `line`: text without control characters, which goes into a header or a command line. */
interface KindValues {
  readonly line: string;
  readonly text: string;
  readonly bool: boolean;
  readonly lines: readonly string[];
  readonly map: object;
  readonly pairs: readonly { readonly name: string; readonly value: string }[];
  readonly command: string;
}

type Kind = keyof KindValues;
type ValuesOf<Kinds extends Readonly<Record<string, Kind>>> = {
  readonly [Key in keyof Kinds]?: KindValues[Kinds[Key]];
};

const contextKinds = { cluster: 'line', user: 'line', namespace: 'line' } as const;
const clusterKinds = {
  server: 'line',
  'certificate-authority': 'line',
  'certificate-authority-data': 'text',
  'insecure-skip-tls-verify': 'bool',
  'tls-server-name': 'line',
  'proxy-url': 'line',
} as const;
const userKinds = {
  'client-certificate': 'line',
  'client-certificate-data': 'text',
  'client-key': 'line',
  'client-key-data': 'text',
  token: 'line',
  tokenFile: 'line',
  username: 'line',
  password: 'text',
  as: 'line',
  'as-uid': 'line',
  'as-groups': 'lines',
  exec: 'map',
  'auth-provider': 'map',
} as const;
const execKinds = {
  command: 'command',
  args: 'lines',
  env: 'pairs',
  apiVersion: 'line',
  installHint: 'text',
  provideClusterInfo: 'bool',
} as const;

// eslint-disable-next-line no-control-regex
const isLine = (value: unknown): boolean => typeof value === 'string' && !/[\0-\x08\x0a-\x1f\x7f]/.test(value);
const isList = (value: unknown, of: (item: unknown) => boolean): boolean =>
  value === null || (Array.isArray(value) && value.every(of));

const kinds: Readonly<Record<Kind, { readonly is: (value: unknown) => boolean; readonly words: string }>> = {
  line: { is: isLine, words: 'text in one line' },
  text: { is: (value) => typeof value === 'string', words: 'text' },
  bool: { is: (value) => typeof value === 'boolean', words: 'true or false' },
  lines: { is: (value) => isList(value, isLine), words: 'a list of texts' },
  map: { is: isObject, words: 'a map' },
  pairs: {
    is: (value) => isList(value, (item) => isObject(item) && isLine(item['name']) && isLine(item['value'])),
    words: 'a list of entries with a name and a value',
  },
  command: { is: (value) => isLine(value) && value !== '', words: 'the name of a program' },
};

/** Throws JobmanError (unreachable) for a value of the wrong kind; the value itself may be a secret and is not repeated. */
function refusing(file: string) {
  return (whose: string, map: object, expected: Readonly<Record<string, Kind>>): void => {
    for (const [key, kind] of Object.entries(expected)) {
      const value = (map as Readonly<Record<string, unknown>>)[key];
      if (value === undefined && kind !== 'command') continue;
      if (kinds[kind].is(value)) continue;
      throw new JobmanError(
        `${whose} in the kubeconfig ${file} cannot be used: ${key} must be ${kinds[kind].words}.`,
        exitCode.unreachable,
      );
    }
  };
}

/** As kubectl merges: whoever says a name first has said it. */
function mergedConfig(configs: readonly Merged[]): Merged {
  const firstOf = <T>(pick: (config: Merged) => ReadonlyMap<string, T>): ReadonlyMap<string, T> =>
    new Map(configs.toReversed().flatMap((config) => [...pick(config)]));
  return {
    current: configs.find(({ current }) => current !== undefined)?.current,
    contexts: firstOf(({ contexts }) => contexts),
    clusters: firstOf(({ clusters }) => clusters),
    users: firstOf(({ users }) => users),
  };
}

// ------------------------------------------------------------------------------------------ pods

function inPod({ env, accountFolder = accountFolderOfPods }: KubeconfigPlace): boolean {
  return env['KUBERNETES_SERVICE_HOST'] !== undefined && existsSync(join(accountFolder, 'token'));
}

function contextOfPod(
  { env, accountFolder = accountFolderOfPods }: KubeconfigPlace,
  options: ClusterOptions,
): KubeContext {
  const host = env['KUBERNETES_SERVICE_HOST'] ?? '';
  const port = env['KUBERNETES_SERVICE_PORT'] ?? '443';
  const namespaceFile = join(accountFolder, 'namespace');
  const own = existsSync(namespaceFile) ? readFileSync(namespaceFile, 'utf8').trim() : usualNamespace;
  return {
    name: 'in-cluster',
    namespace: options.namespace ?? own,
    cluster: {
      server: `https://${host.includes(':') ? `[${host}]` : host}:${port}`,
      'certificate-authority': join(accountFolder, 'ca.crt'),
    },
    user: { tokenFile: join(accountFolder, 'token') },
    userName: 'the service account of this pod',
    from: 'the service account of this pod',
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
