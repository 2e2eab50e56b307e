// Google limits: those of the HTTP client inside Google's own libraries.

const mebibyte = 1024 * 1024;

/**
 * By the names of that client: bytes of one answer after unpacking, no redirection (Google's APIs have none, and a login must not follow one),
 * and the time for one request.
 */
export const googleLimits = { size: 16 * mebibyte, redirect: 'manual', timeout: 20_000 } as const;
