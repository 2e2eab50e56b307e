// Images: the interface to a Harbor registry. The adapter is in harbor/; nothing else in the program knows Harbor's
// API.

import type { Instant } from '../core/model/time.ts';

export interface ImageRow {
  /** As for `submit -i` after the image prefix: without the project of the settings, but with any other project. */
  readonly name: string;
  readonly project: string;
  readonly repository: string;
  readonly tags: readonly string[];
  readonly artifactCount: number;
  readonly pullCount: number;
  readonly updatedAt: Instant | null;
}

export interface ImageArtifact {
  readonly digest: string;
  readonly tags: readonly string[];
  /** Null if the registry does not report them. */
  readonly bytes: number | null;
  /** `linux/amd64`; several for an index. Empty if not reported. */
  readonly platforms: readonly string[];
  readonly pushedAt: Instant | null;
  readonly pulledAt: Instant | null;
}

export interface ImageDetails {
  readonly name: string;
  readonly project: string;
  readonly repository: string;
  readonly description: string;
  readonly pullCount: number;
  /** Newest first; with a tag or digest in the query, only that one. */
  readonly artifacts: readonly ImageArtifact[];
}

export interface CachedResult<T> {
  readonly value: T;
  readonly fetchedAt: Instant;
  /** The reason for an old copy: the registry did not answer. Null for a fresh answer. */
  readonly staleReason: string | null;
}

export interface ImageQuery {
  readonly refresh: boolean;
}

/** An answer with the address of the registry. */
export interface RegistryAnswer<T> extends CachedResult<T> {
  readonly server: string;
}

/** One registry. Throws JobmanError: 2 none is configured, 3 absent, 1 not allowed, 5 unreachable. */
export interface ImagePort {
  readonly server: string;
  /** All images of the project in the settings, else of all visible projects; by name. */
  list(query: ImageQuery): Promise<CachedResult<readonly ImageRow[]>>;
  /** `trainer`, `trainer:3.1`, `lab/nested/trainer@sha256:…`; the registry's own address may precede it. */
  details(image: string, query: ImageQuery): Promise<CachedResult<ImageDetails>>;
  close(): void;
}
