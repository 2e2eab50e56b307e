// Harbor: the door of app/images.ts to a real registry. What it said is kept, and told again for a while without asking.

import { fanOut } from '../app/fan-out.ts';
import type { Dated, ImageArtifact, ImageDetails, ImagePort, ImageQuery, ImageRow } from '../app/images.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { type Duration, type Instant, minute } from '../core/time.ts';
import type { Cache } from './cache.ts';
import { type Asker, HarborRefusal } from './request.ts';
import type { Form } from '../app/json.ts';

interface HarborOf {
  readonly asker: Asker;
  readonly base: string;
  readonly project: string | null;
  /** As whom the settings say to ask; with the address and the project it says what is kept. */
  readonly user: string | null;
  readonly cache: Cache;
  readonly now: () => Instant;
}

/** A copy that is younger is told without asking. */
const freshFor: Duration = 10 * minute;
/** Questions that are under way at once: a registry serves others too, and counts. */
const atOnce = 8;

/** The images of that registry. */
export function createHarbor({ asker, base, project, user, cache, now }: HarborOf): ImagePort {
  const { host } = new URL(base);
  const questions = createQuestions(asker, host);
  const listed = JSON.stringify(['images', project]);

  const kept = keptAnswers({ base, user, cache, now });

  const nameOf = ({ project: of, repository }: RepositoryPlace): string =>
    of === project ? repository : `${of}/${repository}`;

  async function list(): Promise<readonly ImageRow[]> {
    const found = (
      await fanOut(project === null ? await questions.projects() : [project], atOnce, async (of) =>
        (await questions.repositories(of)).map((raw) => ({ of, raw })),
      )
    ).flat();
    const rows = await fanOut(found, atOnce, async ({ of, raw }): Promise<ImageRow | null> => {
      const place = {
        project: of,
        repository: raw.name.startsWith(`${of}/`) ? raw.name.slice(of.length + 1) : raw.name,
      };
      let tags: readonly string[] = [];
      try {
        if (raw.artifact_count !== 0) tags = (await questions.artifacts(place)).flatMap((one) => one.tags);
      } catch (error) {
        // Deleted since the list was made.
        if (error instanceof HarborRefusal && error.status === 404) return null;
        throw error;
      }
      return {
        name: nameOf(place),
        ...place,
        tags,
        artifacts: raw.artifact_count ?? 0,
        pulls: raw.pull_count ?? 0,
        updatedAt: instantOf(raw.update_time),
      };
    });
    return rows.filter((row) => row !== null).toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }

  async function find(
    image: string,
    path: string,
  ): Promise<{ readonly place: RepositoryPlace; readonly raw: RawRepository }> {
    const places = placesOf(path, host, project);
    if (places.length === 0) {
      throw new JobmanError(`Of which project is ${image}? The settings name none (harbor.project).`, exitCode.usage, [
        `Say it before the image: jobman image-details -i <project>/${path}`,
      ]);
    }
    let refused: HarborRefusal | undefined;
    for (const place of places) {
      try {
        return { place, raw: await questions.repository(place) };
      } catch (error) {
        // A first word that is no project is refused like a project that may not be seen.
        const mayBeOther = error instanceof HarborRefusal && (error.status === 404 || error.status === 403);
        if (!mayBeOther) throw error;
        refused ??= error;
      }
    }
    if (refused?.status === 403) throw refused;
    const all = await kept(listed, { refresh: false }, list).catch(() => undefined);
    const near = didYouMean(
      path,
      (all?.value ?? []).map(({ name }) => name),
    );
    throw new JobmanError(
      `There is no image ${path} in ${project === null ? host : `the project ${project} of ${host}`}.${near === undefined ? '' : ` Did you mean ${near}?`}`,
      exitCode.notFound,
      ['See all of them: jobman images'],
    );
  }

  async function details(image: string): Promise<ImageDetails> {
    const { path, reference } = parseImageName(image);
    const { place, raw } = await find(image, path);
    return {
      name: nameOf(place),
      ...place,
      description: raw.description ?? '',
      pulls: raw.pull_count ?? 0,
      artifacts: reference === null ? await questions.artifacts(place) : [await artifact(place, reference)],
    };
  }

  async function artifact(place: RepositoryPlace, reference: string): Promise<ImageArtifact> {
    try {
      return await questions.artifact(place, reference);
    } catch (error) {
      if (!(error instanceof HarborRefusal) || error.status !== 404) throw error;
      const tags = (await questions.artifacts(place)).flatMap((one) => one.tags);
      const near = didYouMean(reference, tags);
      throw new JobmanError(
        `The image ${nameOf(place)} has no ${reference.includes(':') ? 'artifact' : 'tag'} ${reference}.${near === undefined ? '' : ` Did you mean ${near}?`}`,
        exitCode.notFound,
        [tags.length === 0 ? 'It has no tags at all.' : `Its newest tags: ${tags.slice(0, 10).join(', ')}`],
      );
    }
  }

  return {
    server: base,
    list: (query) => kept(listed, query, list),
    details: (image, query) => kept(JSON.stringify(['image', project, image]), query, () => details(image)),
    close: () => asker.close(),
  };
}

/** A copy that is young enough, else the registry's answer; where it does not answer, an old copy that says so. */
function keptAnswers({ base, user, cache, now }: Pick<HarborOf, 'base' | 'user' | 'cache' | 'now'>) {
  return async <T>(what: string, { refresh }: ImageQuery, ask: () => Promise<T>): Promise<Dated<T>> => {
    const question = JSON.stringify([base, user, what]);
    const copy = refresh ? undefined : cache.read<T>(question);
    // A copy from a moment that is still to come was made by a clock that was wrong.
    const age = copy === undefined ? Infinity : now() - copy.at;
    if (copy !== undefined && age >= 0 && age < freshFor) return { ...copy, because: null };
    try {
      const value = await ask();
      const at = now();
      cache.write(question, { at, value });
      return { at, value, because: null };
    } catch (error) {
      const mayBeOld = error instanceof JobmanError && error.code === exitCode.unreachable && !isRefusedLogin(error);
      if (copy === undefined || !mayBeOld) throw error;
      return { ...copy, because: error.message };
    }
  };
}

/** A login that is refused, or wanted, is no silence: an old copy would hide what there is to do. */
function isRefusedLogin(error: JobmanError): boolean {
  return error instanceof HarborRefusal && error.status === 401;
}

// ------------------------------------------------------------------------------------------ names

interface ImageName {
  /** With the project and the registry, where they were said. */
  readonly path: string;
  readonly reference: string | null;
}

interface RepositoryPlace {
  readonly project: string;
  readonly repository: string;
}

const segment = '[a-z0-9]+(?:(?:\\.|_{1,2}|-+)[a-z0-9]+)*';
const form = new RegExp(
  `^(?<path>(?:[A-Za-z0-9.-]+(?::\\d+)?/)?${segment}(?:/${segment})*)(?::(?<tag>[\\w][\\w.-]{0,127}))?(?:@(?<digest>[a-z0-9]+:[0-9a-fA-F]{32,}))?$`,
);

/** Throws JobmanError (usage) for what no image can be called. A digest goes before a tag, as for every registry. */
function parseImageName(text: string): ImageName {
  const { path, tag, digest } = form.exec(text)?.groups ?? {};
  if (path === undefined) {
    throw new JobmanError(`\`${text}\` is no name of an image.`, exitCode.usage, [
      'Expected small letters, digits and dashes, with a tag or a digest behind: trainer, lab/trainer:3.1, trainer@sha256:...',
    ]);
  }
  return { path, reference: digest ?? tag ?? null };
}

/**
 * The repositories that the path may mean, likeliest first: below the project that the settings name, else with the project
 * as its first word. Behind the registry's own address the project is always said. Empty where no project is named at all.
 */
function placesOf(path: string, host: string, project: string | null): readonly RepositoryPlace[] {
  const isFull = path.startsWith(`${host}/`);
  const rest = isFull ? path.slice(host.length + 1) : path;
  const at = rest.indexOf('/');
  const said = at < 0 ? [] : [{ project: rest.slice(0, at), repository: rest.slice(at + 1) }];
  const below = project === null || isFull ? [] : [{ project, repository: rest }];
  return [...below, ...said];
}

// ------------------------------------------------------------------------------------------ questions

function createQuestions(asker: Asker, host: string) {
  return {
    async projects() {
      const all = await asker.all<{ readonly name: string }>({
        path: '/projects',
        form: { name: 'string' },
        query: { with_detail: 'false' },
        what: `list the projects of ${host}`,
      });
      return all.map(({ name }) => name);
    },

    async repositories(project: string) {
      const all = await asker.all<RawRepository>({
        path: `/projects/${encodeURIComponent(project)}/repositories`,
        form: repositoryForm,
        what: `list the images of the project ${project} of ${host}`,
      });
      // A push between two pages shifts the list, so that one entry is on both pages.
      return [...new Map(all.map((one) => [one.name, one])).values()];
    },

    repository: (place: RepositoryPlace) =>
      asker.get<RawRepository>({
        path: pathOf(place),
        form: repositoryForm,
        what: `look at the image ${place.project}/${place.repository}`,
      }),

    /** Newest first. */
    async artifacts(place: RepositoryPlace) {
      const all = await asker.all<RawArtifact>({
        path: `${pathOf(place)}/artifacts`,
        form: artifactForm,
        query: { with_tag: 'true', sort: '-push_time' },
        what: `list the tags of ${place.project}/${place.repository} of ${host}`,
      });
      const read = [...new Map(all.map((one) => [one.digest, readArtifact(one)])).values()];
      return read.toSorted((one, other) => (other.pushedAt ?? 0) - (one.pushedAt ?? 0));
    },

    async artifact(place: RepositoryPlace, reference: string) {
      const raw = await asker.get<RawArtifact>({
        path: `${pathOf(place)}/artifacts/${encodeURIComponent(reference)}`,
        form: artifactForm,
        query: { with_tag: 'true' },
        what: `look at ${place.repository}:${reference}`,
      });
      return readArtifact(raw);
    },
  };
}

/** A slash in a repository's name is encoded twice, as the API wants it. */
function pathOf({ project, repository }: RepositoryPlace): string {
  return `/projects/${encodeURIComponent(project)}/repositories/${encodeURIComponent(encodeURIComponent(repository))}`;
}

// ------------------------------------------------------------------------------------------ answers

interface RawRepository {
  readonly name: string;
  readonly description?: string | null;
  readonly artifact_count?: number;
  readonly pull_count?: number;
  readonly update_time?: string;
}

interface RawArtifact {
  readonly digest: string;
  readonly size?: number;
  readonly push_time?: string;
  readonly pull_time?: string;
  readonly tags?: readonly { readonly name: string; readonly push_time?: string }[] | null;
  readonly extra_attrs?: { readonly architecture?: unknown; readonly os?: unknown } | null;
  /** Of an index: what it leads to. */
  readonly references?:
    | readonly { readonly platform?: { readonly architecture?: string; readonly os?: string } | null }[]
    | null;
}

const repositoryForm: Form = {
  name: 'string',
  description: 'string',
  artifact_count: 'number',
  pull_count: 'number',
  update_time: 'string',
};
const artifactForm: Form = {
  digest: 'string',
  size: 'number',
  push_time: 'string',
  pull_time: 'string',
  tags: [{ name: 'string', push_time: 'string' }],
  extra_attrs: {},
  references: [{ platform: { architecture: 'string', os: 'string' } }],
};

function readArtifact(raw: RawArtifact): ImageArtifact {
  const all = [...(raw.references ?? []).map(({ platform }) => platform), raw.extra_attrs];
  const platforms = all.flatMap((one) =>
    typeof one?.os === 'string' && typeof one.architecture === 'string' && one.os !== 'unknown' && one.os !== ''
      ? [`${one.os}/${one.architecture}`]
      : [],
  );
  const tags = (raw.tags ?? []).toSorted(
    (one, other) => (instantOf(other.push_time) ?? 0) - (instantOf(one.push_time) ?? 0),
  );
  return {
    digest: raw.digest,
    tags: tags.map(({ name }) => name),
    size: raw.size ?? null,
    platforms: [...new Set(platforms)],
    pushedAt: instantOf(raw.push_time),
    pulledAt: instantOf(raw.pull_time),
  };
}

/** Harbor says the year 1 for what never happened. */
function instantOf(text: string | undefined): Instant | null {
  const at = Date.parse(text ?? '');
  return Number.isNaN(at) || at < 0 ? null : at;
}
