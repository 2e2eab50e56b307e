// Images: what a Harbor registry has for jobs to run, and the door to it. The adapter is in harbor/; nothing else in the
// program knows Harbor's API.

import type { Instant } from '../core/time.ts';

export interface ImageRow {
  /** As `submit -i` takes it behind the prefix of the settings: below the project that the settings name, else with its project. */
  readonly name: string;
  readonly project: string;
  /** Below the project; may contain slashes. */
  readonly repository: string;
  readonly tags: readonly string[];
  readonly artifacts: number;
  readonly pulls: number;
  readonly updatedAt: Instant | null;
}

export interface ImageArtifact {
  readonly digest: string;
  readonly tags: readonly string[];
  /** Bytes as they are stored; null where the registry does not say. */
  readonly size: number | null;
  /** `linux/amd64`; one for each of an index. Empty where it is not said. */
  readonly platforms: readonly string[];
  readonly pushedAt: Instant | null;
  readonly pulledAt: Instant | null;
}

export interface ImageDetails {
  readonly name: string;
  readonly project: string;
  readonly repository: string;
  /** The description by its owner, in Markdown; empty where there is none. */
  readonly description: string;
  readonly pulls: number;
  /** Newest first; only the one that was named, where a tag or a digest was. */
  readonly artifacts: readonly ImageArtifact[];
}

/** An answer with its age: it may be a copy of what the registry said before. */
export interface Dated<T> {
  readonly value: T;
  readonly at: Instant;
  /** Why it is an old copy: the registry did not answer. Null where it is as new as was wanted. */
  readonly because: string | null;
}

/** `refresh` takes no copy. */
export interface ImageQuery {
  readonly refresh: boolean;
}

/** The images of one registry. Throws JobmanError: 2 none is named, 3 not there, 1 not allowed, 5 not reached. */
export interface ImagePort {
  readonly server: string;
  /** All images of the project that the settings name, else of every project that may be seen; by name. */
  list(query: ImageQuery): Promise<Dated<readonly ImageRow[]>>;
  /** `trainer`, `trainer:3.1`, `lab/nested/trainer@sha256:…`; the registry's own address may stand before it. */
  details(image: string, query: ImageQuery): Promise<Dated<ImageDetails>>;
  close(): void;
}
