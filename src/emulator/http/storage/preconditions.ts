// Preconditions: what a request demands of an object as it is.

import { refusals } from './errors.ts';
import { etagOf, type StoredObject } from './object.ts';

/** Conditions on the object as it is, or nothing is done; `ifGenerationMatch: '0'` is "there is none". */
export interface Preconditions {
  readonly ifGenerationMatch?: string | undefined;
  readonly ifGenerationNotMatch?: string | undefined;
  readonly ifMetagenerationMatch?: string | undefined;
  readonly ifMetagenerationNotMatch?: string | undefined;
}

/** Throws where one does not hold. */
export function checkPreconditions(current: StoredObject | undefined, only: Preconditions): void {
  const generation = current?.generation ?? '0';
  const metageneration = current === undefined ? undefined : String(current.metageneration);
  const holds =
    (only.ifGenerationMatch === undefined || only.ifGenerationMatch === generation) &&
    (only.ifGenerationNotMatch === undefined || only.ifGenerationNotMatch !== generation) &&
    (only.ifMetagenerationMatch === undefined || only.ifMetagenerationMatch === metageneration) &&
    (only.ifMetagenerationNotMatch === undefined || only.ifMetagenerationNotMatch !== metageneration);
  if (!holds) throw refusals.precondition();
}

/**
 * The same for reading, where a generation or an ETag that the reader has already is no mistake of theirs: 304.
 * https://cloud.google.com/storage/docs/request-preconditions
 */
export function checkRead(
  current: StoredObject,
  only: Preconditions,
  headers: { readonly 'if-match'?: string | undefined; readonly 'if-none-match'?: string | undefined },
): void {
  const { ifGenerationNotMatch, ifMetagenerationNotMatch, ...must } = only;
  checkPreconditions(current, must);
  const wanted = headers['if-match'];
  if (wanted !== undefined && wanted !== '*' && !tagsIn(wanted).includes(etagOf(current)))
    throw refusals.precondition();
  const known = headers['if-none-match'];
  if (
    ifGenerationNotMatch === current.generation ||
    ifMetagenerationNotMatch === String(current.metageneration) ||
    (known !== undefined && (known === '*' || tagsIn(known).includes(etagOf(current))))
  ) {
    throw refusals.notModified();
  }
}

/** Google writes its tags without the quotes that HTTP wants; clients send them in either form. */
function tagsIn(header: string): readonly string[] {
  return header.split(',').map((tag) => tag.trim().replace(/^(?:W\/)?"?|"$/g, ''));
}
