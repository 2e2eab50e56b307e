// Questions: what is asked of a registry about its projects, repositories and artifacts.

import type { ImageArtifact } from '../app/images.ts';
import { artifactForm, readArtifact, repositoryForm, type RawArtifact, type RawRepository } from './answers.ts';
import type { RepositoryPlace } from './image-name.ts';
import type { Asker } from './request.ts';

/** Questions to one registry; `host` is its name for people. */
export interface Questions {
  /** The names of all projects that may be seen. */
  projects(): Promise<readonly string[]>;
  repositories(project: string): Promise<readonly RawRepository[]>;
  repository(place: RepositoryPlace): Promise<RawRepository>;
  /** Newest first. */
  artifacts(place: RepositoryPlace): Promise<readonly ImageArtifact[]>;
  artifact(place: RepositoryPlace, reference: string): Promise<ImageArtifact>;
}

/** Asks nothing yet. */
export function createQuestions(asker: Asker, host: string): Questions {
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

    async repositories(project) {
      const all = await asker.all<RawRepository>({
        path: `/projects/${encodeURIComponent(project)}/repositories`,
        form: repositoryForm,
        what: `list the images of the project ${project} of ${host}`,
      });
      // A push between two pages shifts the list, so that one entry is on both pages.
      return [...new Map(all.map((one) => [one.name, one])).values()];
    },

    repository: (place) =>
      asker.get<RawRepository>({
        path: pathOf(place),
        form: repositoryForm,
        what: `look at the image ${place.project}/${place.repository}`,
      }),

    async artifacts(place) {
      const all = await asker.all<RawArtifact>({
        path: `${pathOf(place)}/artifacts`,
        form: artifactForm,
        query: { with_tag: 'true', sort: '-push_time' },
        what: `list the tags of ${place.project}/${place.repository} of ${host}`,
      });
      const read = [...new Map(all.map((one) => [one.digest, readArtifact(one)])).values()];
      return read.toSorted((one, other) => (other.pushedAt ?? 0) - (one.pushedAt ?? 0));
    },

    async artifact(place, reference) {
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
