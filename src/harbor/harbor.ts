// Harbor: the door of app/images.ts to a real registry. What it said is kept, and told again for a while without asking.

import { fanOut } from '../app/fan-out.ts';
import type { Dated, ImageArtifact, ImageDetails, ImagePort, ImageQuery, ImageRow } from '../app/images.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { minute, type Duration, type Instant } from '../core/time.ts';
import { instantOf, type RawRepository } from './answers.ts';
import type { Cache } from './cache.ts';
import { parseImageName, placesOf, type RepositoryPlace } from './image-name.ts';
import { createQuestions } from './questions.ts';
import { HarborRefusal, type Asker } from './request.ts';

/** The parts that the image port of a registry is built from. */
export interface HarborOf {
  readonly asker: Asker;
  /** `https://harbor.example.com`. */
  readonly base: string;
  /** The one of the settings; null for all. */
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

  /** The repository that the words mean, of those that they may mean. */
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
