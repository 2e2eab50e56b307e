/** The version of this source. A test keeps it equal to package.json, so that a start need not read that file. */
export const version = '0.1.0';
