/** How much a unit may count, so that its summary stays small: more names than this are refused. */

export const stepsMax = 100;
export const metricsMax = 100;
export const checksMax = 100;
/** Of one kind, over all units together. */
export const mergedNamesMax = 1_000;
/** Different errors that are listed; all are counted. */
export const errorsMax = 100;
/** Failed items of one workflow that are listed; all are counted. */
export const failuresMax = 1_000;
export const nameBytesMax = 100;
/** Of the text of an error 3 times as much: so many characters. */
export const errorBytesMax = 300;
export const stepNamePattern = /^[A-Za-z][\w.-]{0,62}$/;
