// In the format of the JSON API: https://cloud.google.com/storage/docs/json_api/v1/status-codes

export class StorageError extends Error {
  override readonly name = 'StorageError';
  readonly code: number;
  readonly reason: string;

  constructor(code: number, reason: string, message: string) {
    super(message);
    this.code = code;
    this.reason = reason;
  }

  body(): object {
    const { code, message, reason } = this;
    return { error: { code, message, errors: [{ message, domain: 'global', reason }] } };
  }
}

export const storageErrors = {
  bucketNotFound: () => new StorageError(404, 'notFound', 'The specified bucket does not exist.'),
  objectNotFound: (bucket: string, name: string) =>
    new StorageError(404, 'notFound', `No such object: ${bucket}/${name}`),
  uploadNotFound: () => new StorageError(404, 'notFound', 'There is no such upload.'),
  bucketExists: () =>
    new StorageError(
      409,
      'conflict',
      'Your previous request to create the named bucket succeeded and you already own it.',
    ),
  bucketNotEmpty: () => new StorageError(409, 'conflict', 'The bucket you tried to delete is not empty.'),
  /** The reader already has this version; the reply has no body. */
  notModified: () => new StorageError(304, 'notModified', 'Not Modified'),
  unauthenticated: () => new StorageError(401, 'authError', 'Invalid Credentials'),
  forbidden: (permission: string) =>
    new StorageError(
      403,
      'forbidden',
      `The caller does not have ${permission} access. Permission '${permission}' denied on resource (or it may not exist).`,
    ),
  unavailable: () => new StorageError(503, 'backendError', 'We encountered an internal error. Please try again.'),
  preconditionFailed: () =>
    new StorageError(412, 'conditionNotMet', 'At least one of the pre-conditions you specified did not hold.'),
  badRange: () => new StorageError(416, 'requestedRangeNotSatisfiable', 'The requested range cannot be satisfied.'),
  invalid: (message: string) => new StorageError(400, 'invalid', message),
  notImplemented: (what: string) =>
    new StorageError(501, 'notImplemented', `The emulator's Storage does not support ${what}.`),
} as const;
