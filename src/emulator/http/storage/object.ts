// An object as Storage knows it.

import type { Checksums } from './checksums.ts';

/** An object as a client describes it, and gets it back. */
export interface ObjectAbout extends Partial<Checksums> {
  readonly contentType?: string;
  readonly contentEncoding?: string;
  readonly contentDisposition?: string;
  readonly contentLanguage?: string;
  readonly cacheControl?: string;
  readonly customTime?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly componentCount?: number;
}

export interface StoredObject {
  readonly bucket: string;
  readonly name: string;
  /** Of its file or folder. */
  readonly path: string;
  readonly size: number;
  /** Microseconds, as Google's are: a later state of the object has a larger one. */
  readonly generation: string;
  readonly metageneration: number;
  /** Milliseconds. */
  readonly updatedAt: number;
  readonly about: ObjectAbout;
}

/** Changes with the object and with what is said of it. */
export function etagOf({ generation, metageneration }: StoredObject): string {
  return Buffer.from(`${generation}/${String(metageneration)}`).toString('base64');
}
