// Image name: the words of `-i` taken apart, and the places of a registry that they may mean.
// The form: https://github.com/distribution/reference/blob/main/reference.go

import { exitCode, JobmanError } from '../app/errors.ts';

/** An image as it was named. */
export interface ImageName {
  /** With the project and the registry, where they were said. */
  readonly path: string;
  /** The tag or the digest; null where none was named. */
  readonly reference: string | null;
}

/** A repository of a registry. */
export interface RepositoryPlace {
  readonly project: string;
  readonly repository: string;
}

const segment = '[a-z0-9]+(?:(?:\\.|_{1,2}|-+)[a-z0-9]+)*';
const form = new RegExp(
  `^(?<path>(?:[A-Za-z0-9.-]+(?::\\d+)?/)?${segment}(?:/${segment})*)(?::(?<tag>[\\w][\\w.-]{0,127}))?(?:@(?<digest>[a-z0-9]+:[0-9a-fA-F]{32,}))?$`,
);

/** Throws JobmanError (usage) for what no image can be called. A digest goes before a tag, as for every registry. */
export function parseImageName(text: string): ImageName {
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
export function placesOf(path: string, host: string, project: string | null): readonly RepositoryPlace[] {
  const isFull = path.startsWith(`${host}/`);
  const rest = isFull ? path.slice(host.length + 1) : path;
  const at = rest.indexOf('/');
  const said = at < 0 ? [] : [{ project: rest.slice(0, at), repository: rest.slice(at + 1) }];
  const below = project === null || isFull ? [] : [{ project, repository: rest }];
  return [...below, ...said];
}
