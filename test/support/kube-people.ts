/**
 * People of a cluster: the administrator, and somebody with the least rights that every command of a user needs. Each has a home
 * and a kubeconfig of their own whose namespace is the test's, so that lines can be said as they stand in the manuals.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { jobman, startJobman, type Ended, type Options, type Running } from './jobman.ts';
import { changedKubeconfig, type Kube } from './kube.ts';
import type { World } from './world.ts';

/** Somebody who uses jobman on that cluster. */
export interface Person {
  readonly name: string;
  readonly kubeconfig: string;
  readonly home: string;
  ask(words: readonly string[], options?: Options): Promise<Ended>;
  start(words: readonly string[], options?: Options): Running;
}

/** That user's settings, where they are not the template's. */
interface Wishes {
  readonly kubeconfig?: string;
  readonly settings?: object;
}

/** The administrator of the whole cluster, whose namespace is this test's. */
export function administrator(world: World, kube: Kube, wishes: Wishes = {}): Person {
  return person(world, 'admin', { kubeconfig: inNamespace(world, kube.admin, kube.namespace), ...wishes });
}

/**
 * Somebody who may do in the namespace what `jobman` asks of a user, and nothing else: the rights that docs/kubernetes.md
 * names. The token is the cluster's own, for an hour.
 */
export function leastRights(world: World, kube: Kube, wishes: Wishes = {}): Person {
  const account = 'researcher';
  kube.kubectl('create', 'serviceaccount', account);
  const rules = [
    { apiGroups: ['batch'], resources: ['jobs'], verbs: ['create', 'get', 'list', 'watch', 'patch', 'delete'] },
    { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: [''], resources: ['pods/log'], verbs: ['get'] },
  ];
  const metadata = { name: account, namespace: kube.namespace };
  const group = 'rbac.authorization.k8s.io';
  const objects = [
    { apiVersion: `${group}/v1`, kind: 'Role', metadata, rules },
    {
      apiVersion: `${group}/v1`,
      kind: 'RoleBinding',
      metadata,
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
      roleRef: { apiGroup: group, kind: 'Role', name: account },
    },
  ];
  const file = join(world.folder, 'rights.json');
  writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }));
  kube.kubectl('apply', '-f', file);
  const token = kube.kubectl('create', 'token', account, '--duration=1h').trim();
  const kubeconfig = changedKubeconfig(world, inNamespace(world, kube.admin, kube.namespace), ({ users }) => {
    for (const one of users) one.user = { token };
  });
  return person(world, 'researcher', { kubeconfig, ...wishes });
}

/** A copy of that kubeconfig whose contexts mean this namespace. */
export function inNamespace(world: World, kubeconfig: string, namespace: string): string {
  return changedKubeconfig(world, kubeconfig, ({ contexts }) => {
    for (const { context } of contexts) context['namespace'] = namespace;
  });
}

function person(world: World, name: string, { kubeconfig = '', settings }: Wishes): Person {
  const home = join(world.folder, `home-${name}`);
  mkdirSync(home, { mode: 0o700 });
  if (settings !== undefined) writeFileSync(join(home, 'settings.json'), JSON.stringify(settings));
  const with_ = (options: Options = {}): Options => ({
    withinMs: 180_000,
    ...options,
    env: { KUBECONFIG: kubeconfig, JOBMAN_HOME: home, ...options.env },
  });
  // A job that is submitted may have started the controller that keeps its logs.
  world.atEnd(async () => void (await jobman(world, ['controller', 'stop'], with_())));
  return {
    name,
    kubeconfig,
    home,
    ask: (words, options) => jobman(world, words, with_(options)),
    start: (words, options) => startJobman(world, words, with_(options)),
  };
}
