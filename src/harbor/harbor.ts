// Implements app/images.ts over a Harbor registry, with a cache of its answers.

import { mapConcurrent } from '../app/concurrency.ts';
import type { CachedResult, ImageArtifact, ImageDetails, ImagePort, ImageQuery, ImageRow } from '../app/images.ts';
import type { AnswerCache } from '../files/answer-cache.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { type Duration, type Instant, minute, parseInstant } from '../core/model/time.ts';
import { type HarborClient, HarborError } from './client.ts';
import type { Shape, ShapeValue } from '../app/json.ts';

interface HarborOptions {
  readonly client: HarborClient;
  readonly base: string;
  readonly project: string | null;
  /** The user of the settings; part of the cache key, like the address and the project. */
  readonly user: string | null;
  readonly cache: AnswerCache;
  readonly now: () => Instant;
}

const cacheMaxAge: Duration = 10 * minute;
/** Concurrent requests: a registry has other users too, and may limit the rate. */
const maxConcurrent = 8;

export function createHarbor({ client, base, project, user, cache, now }: HarborOptions): ImagePort {
  const { host } = new URL(base);
  const queries = createHarborQueries(client, host);
  const listKey = JSON.stringify(['images', project]);

  const cached = createCachedFetch({ base, user, cache, now });

  const nameOf = ({ project: of, repository }: RepositoryRef): string =>
    of === project ? repository : `${of}/${repository}`;

  async function list(): Promise<readonly ImageRow[]> {
    const projects = project === null ? await queries.projects() : [project];
    const found = await mapConcurrent(projects, maxConcurrent, async (of) =>
      (await queries.repositories(of)).map((raw) => ({ of, raw })),
    );
    const rows = await mapConcurrent(found.flat(), maxConcurrent, async ({ of, raw }): Promise<ImageRow | null> => {
      const repository = {
        project: of,
        repository: raw.name.startsWith(`${of}/`) ? raw.name.slice(of.length + 1) : raw.name,
      };
      let tags: readonly string[] = [];
      try {
        if (raw.artifact_count !== 0) tags = (await queries.artifacts(repository)).flatMap((one) => one.tags);
      } catch (error) {
        // Deleted since the list was made.
        if (error instanceof HarborError && error.status === 404) return null;
        throw error;
      }
      return {
        name: nameOf(repository),
        ...repository,
        tags,
        artifactCount: raw.artifact_count ?? 0,
        pullCount: raw.pull_count ?? 0,
        updatedAt: parseTime(raw.update_time),
      };
    });
    return rows.filter((row) => row !== null).toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }

  async function find(
    image: string,
    path: string,
  ): Promise<{ readonly repository: RepositoryRef; readonly raw: RawRepository }> {
    const candidates = candidateRepositories(path, host, project);
    if (candidates.length === 0) {
      throw new JobmanError(`${image} needs a project: the setting harbor.project is not set.`, exitCode.usage, [
        `Put the project before the image: jobman image-details -i <project>/${path}`,
      ]);
    }
    let refused: HarborError | undefined;
    for (const repository of candidates) {
      try {
        return { repository, raw: await queries.repository(repository) };
      } catch (error) {
        // Harbor answers 403 for a first segment that is not a project, as for an invisible project.
        const mayBeOther = error instanceof HarborError && (error.status === 404 || error.status === 403);
        if (!mayBeOther) throw error;
        refused ??= error;
      }
    }
    if (refused?.status === 403) throw refused;
    const all = await cached(listKey, { refresh: false }, list).catch(() => undefined);
    const near = didYouMean(
      path,
      (all?.value ?? []).map(({ name }) => name),
    );
    throw new JobmanError(
      `There is no image ${path} in ${project === null ? host : `the project ${project} of ${host}`}.${near === undefined ? '' : ` Did you mean ${near}?`}`,
      exitCode.notFound,
      ['List all: jobman images'],
    );
  }

  async function details(image: string): Promise<ImageDetails> {
    const { path, reference } = parseImageName(image);
    const { repository, raw } = await find(image, path);
    return {
      name: nameOf(repository),
      ...repository,
      description: raw.description ?? '',
      pullCount: raw.pull_count ?? 0,
      artifacts: reference === null ? await queries.artifacts(repository) : [await artifact(repository, reference)],
    };
  }

  async function artifact(repository: RepositoryRef, reference: string): Promise<ImageArtifact> {
    try {
      return await queries.artifact(repository, reference);
    } catch (error) {
      if (!(error instanceof HarborError) || error.status !== 404) throw error;
      const tags = (await queries.artifacts(repository)).flatMap((one) => one.tags);
      const near = didYouMean(reference, tags);
      throw new JobmanError(
        `The image ${nameOf(repository)} has no ${reference.includes(':') ? 'artifact' : 'tag'} ${reference}.${near === undefined ? '' : ` Did you mean ${near}?`}`,
        exitCode.notFound,
        [tags.length === 0 ? 'It has no tags.' : `Its newest tags: ${tags.slice(0, 10).join(', ')}`],
      );
    }
  }

  return {
    server: base,
    list: (query) => cached(listKey, query, list),
    details: (image, query) => cached(JSON.stringify(['image', project, image]), query, () => details(image)),
    close: () => client.close(),
  };
}

/** A young copy, else the registry's answer; an old copy with the reason if the registry does not answer. */
function createCachedFetch({ base, user, cache, now }: Pick<HarborOptions, 'base' | 'user' | 'cache' | 'now'>) {
  return async <T>(what: string, { refresh }: ImageQuery, ask: () => Promise<T>): Promise<CachedResult<T>> => {
    const key = JSON.stringify([base, user, what]);
    const copy = refresh ? undefined : cache.read<T>(key);
    // A copy with a time in the future comes from a wrong clock.
    const age = copy === undefined ? Infinity : now() - copy.fetchedAt;
    if (copy !== undefined && age >= 0 && age < cacheMaxAge) return { ...copy, staleReason: null };
    try {
      const value = await ask();
      const fetchedAt = now();
      cache.write(key, { fetchedAt, value });
      return { fetchedAt, value, staleReason: null };
    } catch (error) {
      // A refused or missing login is not an outage: an old copy would hide what the user has to do.
      const isLoginRefused = error instanceof HarborError && error.status === 401;
      const mayBeOld = error instanceof JobmanError && error.code === exitCode.unreachable && !isLoginRefused;
      if (copy === undefined || !mayBeOld) throw error;
      return { ...copy, staleReason: error.message };
    }
  };
}

// ------------------------------------------------------------------------------------------ names

interface ImageName {
  /** With the project and the registry, if they were given. */
  readonly path: string;
  readonly reference: string | null;
}

interface RepositoryRef {
  readonly project: string;
  readonly repository: string;
}

const segment = '[a-z0-9]+(?:(?:\\.|_{1,2}|-+)[a-z0-9]+)*';
const imageNamePattern = new RegExp(
  `^(?<path>(?:[A-Za-z0-9.-]+(?::\\d+)?/)?${segment}(?:/${segment})*)(?::(?<tag>[\\w][\\w.-]{0,127}))?(?:@(?<digest>[a-z0-9]+:[0-9a-fA-F]{32,}))?$`,
);

/** Throws JobmanError (usage) for an invalid name. A digest takes precedence over a tag, as for every registry. */
function parseImageName(text: string): ImageName {
  const { path, tag, digest } = imageNamePattern.exec(text)?.groups ?? {};
  if (path === undefined) {
    throw new JobmanError(`"${text}" is not an image name.`, exitCode.usage, [
      'Use lower-case letters, digits and dashes, then a tag or a digest: trainer, lab/trainer:3.1, trainer@sha256:...',
    ]);
  }
  return { path, reference: digest ?? tag ?? null };
}

/**
 * The possible repositories, most likely first: in the default project, then with the project as the first segment. A
 * path with the registry's address always contains the project. Empty if no project is named.
 */
function candidateRepositories(path: string, host: string, project: string | null): readonly RepositoryRef[] {
  const isFull = path.startsWith(`${host}/`);
  const rest = isFull ? path.slice(host.length + 1) : path;
  const at = rest.indexOf('/');
  const explicit = at < 0 ? [] : [{ project: rest.slice(0, at), repository: rest.slice(at + 1) }];
  const inDefaultProject = project === null || isFull ? [] : [{ project, repository: rest }];
  return [...inDefaultProject, ...explicit];
}

// ------------------------------------------------------------------------------------------ questions

function createHarborQueries(client: HarborClient, host: string) {
  return {
    async projects() {
      const all = await client.list<{ readonly name: string }>({
        path: '/projects',
        form: { name: 'string' },
        query: { with_detail: 'false' },
        action: `list the projects of ${host}`,
      });
      return all.map(({ name }) => name);
    },

    async repositories(project: string) {
      const all = await client.list<RawRepository>({
        path: `/projects/${encodeURIComponent(project)}/repositories`,
        form: repositoryForm,
        action: `list the images of the project ${project} of ${host}`,
      });
      // A push between two pages shifts the list, so that one entry is on both pages.
      return [...new Map(all.map((one) => [one.name, one])).values()];
    },

    repository: (repository: RepositoryRef) =>
      client.get<RawRepository>({
        path: repositoryPath(repository),
        form: repositoryForm,
        action: `read the image ${repository.project}/${repository.repository}`,
      }),

    /** Newest first. */
    async artifacts(repository: RepositoryRef) {
      const all = await client.list<RawArtifact>({
        path: `${repositoryPath(repository)}/artifacts`,
        form: artifactForm,
        query: { with_tag: 'true', sort: '-push_time' },
        action: `list the tags of ${repository.project}/${repository.repository} of ${host}`,
      });
      const read = [...new Map(all.map((one) => [one.digest, readArtifact(one)])).values()];
      return read.toSorted((one, other) => (other.pushedAt ?? 0) - (one.pushedAt ?? 0));
    },

    async artifact(repository: RepositoryRef, reference: string) {
      const raw = await client.get<RawArtifact>({
        path: `${repositoryPath(repository)}/artifacts/${encodeURIComponent(reference)}`,
        form: artifactForm,
        query: { with_tag: 'true' },
        action: `read ${repository.repository}:${reference}`,
      });
      return readArtifact(raw);
    },
  };
}

/** The API requires a slash in a repository's name to be encoded twice. */
function repositoryPath({ project, repository }: RepositoryRef): string {
  return `/projects/${encodeURIComponent(project)}/repositories/${encodeURIComponent(encodeURIComponent(repository))}`;
}

// ------------------------------------------------------------------------------------------ answers

const repositoryForm = {
  name: 'string',
  description: 'string',
  artifact_count: 'number',
  pull_count: 'number',
  update_time: 'string',
} as const satisfies Shape;
const artifactForm = {
  digest: 'string',
  size: 'number',
  push_time: 'string',
  pull_time: 'string',
  tags: [{ name: 'string', push_time: 'string' }],
  extra_attrs: {},
  references: [{ platform: { architecture: 'string', os: 'string' } }],
} as const satisfies Shape;

type RawRepository = ShapeValue<typeof repositoryForm>;
type RawArtifact = ShapeValue<typeof artifactForm>;
/** Harbor does not check `extra_attrs`, which come from the image. */
type Platform = { readonly os?: unknown; readonly architecture?: unknown } | undefined;

function readArtifact(raw: RawArtifact): ImageArtifact {
  const all: readonly Platform[] = [...(raw.references ?? []).map(({ platform }) => platform), raw.extra_attrs];
  const platforms = all.flatMap((one) =>
    typeof one?.os === 'string' && typeof one.architecture === 'string' && one.os !== 'unknown' && one.os !== ''
      ? [`${one.os}/${one.architecture}`]
      : [],
  );
  const tags = (raw.tags ?? []).toSorted(
    (one, other) => (parseTime(other.push_time) ?? 0) - (parseTime(one.push_time) ?? 0),
  );
  return {
    digest: raw.digest,
    tags: tags.map(({ name }) => name),
    bytes: raw.size ?? null,
    platforms: [...new Set(platforms)],
    pushedAt: parseTime(raw.push_time),
    pulledAt: parseTime(raw.pull_time),
  };
}

/** Harbor writes the year 1 for "never". */
function parseTime(text: string | undefined): Instant | null {
  const at = parseInstant(text);
  return at === null || at < 0 ? null : at;
}
