/**
 * Format numbers that this version writes, and the only ones that it reads. Before 1.0 there is no compatibility: a
 * change of a record on disk or of a message raises the number, and data or a peer with another number is refused with
 * INCOMPATIBLE_VERSION (decision 16).
 */

/** All records in a data directory: store, logs, files. */
export const dataFormat = 3;

/** Every message between nodes and clients. */
export const wireFormat = 3;
