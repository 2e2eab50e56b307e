// Refusals of Cloud Storage, in the shape of its JSON API, which is older than that of the Cloud TPU API.
// https://cloud.google.com/storage/docs/json_api/v1/status-codes

/** A request that Storage refuses. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
  readonly code: number;
  readonly reason: string;

  constructor(code: number, reason: string, message: string) {
    super(message);
    this.code = code;
    this.reason = reason;
  }

  /** The body of the HTTP reply. */
  body(): object {
    const { code, message, reason } = this;
    return { error: { code, message, errors: [{ message, domain: 'global', reason }] } };
  }
}

export const refusals = {
  noBucket: () => new StorageError(404, 'notFound', 'The specified bucket does not exist.'),
  noObject: (bucket: string, name: string) => new StorageError(404, 'notFound', `No such object: ${bucket}/${name}`),
  noUpload: () => new StorageError(404, 'notFound', 'There is no such upload.'),
  isThere: () =>
    new StorageError(
      409,
      'conflict',
      'Your previous request to create the named bucket succeeded and you already own it.',
    ),
  notEmpty: () => new StorageError(409, 'conflict', 'The bucket you tried to delete is not empty.'),
  /** To a reader who has it already; there is nothing to tell. */
  notModified: () => new StorageError(304, 'notModified', 'Not Modified'),
  login: () => new StorageError(401, 'authError', 'Invalid Credentials'),
  forbidden: (permission: string) =>
    new StorageError(
      403,
      'forbidden',
      `The caller does not have ${permission} access. Permission '${permission}' denied on resource (or it may not exist).`,
    ),
  unavailable: () => new StorageError(503, 'backendError', 'We encountered an internal error. Please try again.'),
  precondition: () =>
    new StorageError(412, 'conditionNotMet', 'At least one of the pre-conditions you specified did not hold.'),
  badRange: () => new StorageError(416, 'requestedRangeNotSatisfiable', 'The requested range cannot be satisfied.'),
  invalid: (message: string) => new StorageError(400, 'invalid', message),
  notPlayed: (what: string) => new StorageError(501, 'notImplemented', `The emulator's Storage does not know ${what}.`),
} as const;
