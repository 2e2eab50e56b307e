/**
 * A small Harbor over HTTPS, with its own authority. It follows the published v2.0 API
 * (https://github.com/goharbor/harbor/blob/main/api/v2.0/swagger.yaml): pages of ten by default and of a
 * hundred at most, Link and X-Total-Count, names encoded twice, projects that are public or have members, errors as objects.
 */
import { writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createCertificates, type Certificates } from '../support/certificates.ts';
import type { World } from '../support/world.ts';

export interface Artifact {
  readonly digest: string;
  readonly tags: readonly string[];
  readonly size?: number;
  readonly pushedAt?: string;
  /** Several make it an index. */
  readonly platforms?: readonly string[];
}

export interface Repository {
  readonly name: string;
  readonly description?: string;
  readonly pulls?: number;
  readonly updatedAt?: string;
  readonly artifacts: readonly Artifact[];
}

export interface Project {
  readonly name: string;
  readonly public?: boolean;
  readonly members?: readonly string[];
  readonly repositories: readonly Repository[];
}

/** A fault instead of an answer. */
export interface Fault {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** The connection is closed without a reply. */
  readonly drop?: true;
}

export interface FakeHarbor {
  readonly url: string;
  /** The certificate of its authority, in PEM. */
  readonly caFile: string;
  /** Paths of the requests, with their queries. */
  readonly requests: readonly string[];
  /** The highest number of concurrent requests. */
  maxConcurrency(): number;
  /** Faults for the next requests, in order. */
  fail(...faults: readonly Fault[]): void;
  setProjects(projects: readonly Project[]): void;
}

/** As `name: password`. */
export type Users = Readonly<Record<string, string>>;

/** Stops at the end of the test. `slowMs` delays each answer, so that several requests overlap. */
export async function openHarbor(
  world: World,
  options: { readonly projects: readonly Project[]; readonly users?: Users; readonly slowMs?: number },
): Promise<FakeHarbor> {
  const { users = {}, slowMs = 0 } = options;
  let { projects } = options;
  const { key, cert, ca } = (cachedCertificates ??= createCertificates(join(world.folder, 'harbor-tls')));
  const caFile = join(world.folder, 'authority.pem');
  writeFileSync(caFile, ca);
  const requests: string[] = [];
  const faults: Fault[] = [];
  let [concurrency, maxConcurrency] = [0, 0];

  const server = createServer({ key, cert }, (incoming, outgoing) => {
    void (async () => {
      requests.push(incoming.url ?? '');
      concurrency += 1;
      maxConcurrency = Math.max(maxConcurrency, concurrency);
      if (slowMs > 0) await sleep(slowMs);
      concurrency -= 1;
      const fault = faults.shift();
      if (fault?.drop === true) outgoing.destroy();
      else if (fault === undefined) answer(incoming, outgoing, { projects, users });
      else outgoing.writeHead(fault.status ?? 500, fault.headers).end(fault.body ?? errorBody('UNKNOWN', 'a fault'));
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  world.atEnd(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    caFile,
    requests,
    maxConcurrency: () => maxConcurrency,
    fail: (...more) => void faults.push(...more),
    setProjects(next) {
      projects = next;
    },
  };
}

interface HarborState {
  readonly projects: readonly Project[];
  readonly users: Users;
}

function answer(incoming: IncomingMessage, outgoing: ServerResponse, { projects, users }: HarborState): void {
  const url = new URL(incoming.url ?? '', 'https://x');
  const refuse = (status: number, code: string, message: string): void =>
    void outgoing.writeHead(status, { 'content-type': 'application/json' }).end(errorBody(code, message));
  const give = (value: unknown, headers: Readonly<Record<string, string>> = {}): void =>
    void outgoing.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));

  const basicAuth = /^Basic (.+)$/.exec(incoming.headers.authorization ?? '')?.[1];
  const [user = null, password] =
    basicAuth === undefined ? [] : Buffer.from(basicAuth, 'base64').toString('utf8').split(/:(.*)/s);
  if (user !== null && users[user] !== password) return refuse(401, 'UNAUTHORIZED', 'unauthorized');

  const list = (all: readonly unknown[]): void => {
    const page = Number(url.searchParams.get('page') ?? '1');
    const size = Number(url.searchParams.get('page_size') ?? '10');
    if (size > 100) return refuse(422, '606', 'page_size in query should be less than or equal to 100');
    const links = [
      [page - 1, 'prev'],
      [page + 1, 'next'],
    ] as const;
    const link = links
      .filter(([number]) => number >= 1 && (number - 1) * size < all.length)
      .map(([number, rel]) => `<${url.pathname}?page=${number}&page_size=${size}>; rel="${rel}"`)
      .join(' , ');
    give(all.slice((page - 1) * size, page * size), {
      'x-total-count': String(all.length),
      ...(link === '' ? {} : { link }),
    });
  };

  const maySee = (project: Project | undefined): project is Project =>
    project !== undefined && (project.public === true || (user !== null && (project.members ?? []).includes(user)));
  const base = '/api/v2.0/projects';
  if (url.pathname === base) return list(projects.filter(maySee).map(({ name }) => ({ name })));
  // The router splits the path at slashes before it decodes a name, so a slash that is encoded once is lost.
  const path = decodeURIComponent(url.pathname);
  if (!path.startsWith(`${base}/`)) return refuse(404, 'NOT_FOUND', 'The resource is not found');
  const [projectName, collection, name, below, reference, ...rest] = path.slice(base.length + 1).split('/');
  if (collection !== 'repositories' || rest.length > 0) return refuse(404, 'NOT_FOUND', `path ${path} was not found`);

  const project = projects.find((one) => one.name === projectName);
  // A user cannot learn whether an invisible project exists.
  if (!maySee(project)) {
    return user === null ? refuse(401, 'UNAUTHORIZED', 'unauthorized') : refuse(403, 'FORBIDDEN', 'forbidden');
  }
  const row = (one: Repository): object => ({
    name: `${project.name}/${one.name}`,
    description: one.description ?? '',
    artifact_count: one.artifacts.length,
    pull_count: one.pulls ?? 0,
    update_time: one.updatedAt ?? '2026-11-20T12:00:00.000Z',
  });
  if (name === undefined) return list(project.repositories.map(row));
  const decoded = decodeURIComponent(name);
  const repository = project.repositories.find((one) => one.name === decoded);
  if (repository === undefined) return refuse(404, 'NOT_FOUND', `repository ${project.name}/${decoded} not found`);
  if (below === undefined) return give(row(repository));
  if (reference === undefined) return list(repository.artifacts.map(artifactBody));
  const found = repository.artifacts.find((one) => one.digest === reference || one.tags.includes(reference));
  if (found === undefined)
    return refuse(404, 'NOT_FOUND', `artifact ${project.name}/${decoded}:${reference} not found`);
  give(artifactBody(found));
}

function artifactBody({ digest, tags, size = 1_000, pushedAt = '2026-11-20T12:00:00.000Z', platforms = [] }: Artifact) {
  const [first, ...others] = platforms.map((one) => {
    const [os, architecture] = one.split('/');
    return { os, architecture };
  });
  return {
    digest,
    size,
    push_time: pushedAt,
    pull_time: '0001-01-01T00:00:00.000Z',
    // Harbor answers null for an artifact without tags.
    tags: tags.length === 0 ? null : tags.map((name) => ({ name, push_time: pushedAt })),
    ...(others.length > 0
      ? { references: [first, ...others].map((platform) => ({ platform })), extra_attrs: {} }
      : { extra_attrs: first ?? null }),
  };
}

/** An error in Harbor's format. */
export function errorBody(code: string, message: string): string {
  return JSON.stringify({ errors: [{ code, message }] });
}

/** Created once, because openssl is slow. */
let cachedCertificates: Certificates | undefined;
