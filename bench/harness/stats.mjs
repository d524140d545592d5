// @ts-check
/** In: samples. Out: what stands for them. The median, because a busy machine only ever adds. */

/** @param {readonly number[]} values */
export function median(values) {
  return quantile(values, 0.5);
}

/**
 * @param {readonly number[]} values
 * @param {number} share between 0 and 1
 */
export function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const [low, high] = [sorted[Math.floor(at)] ?? Number.NaN, sorted[Math.ceil(at)] ?? Number.NaN];
  return low + (high - low) * (at - Math.floor(at));
}

/**
 * @param {readonly number[]} samples
 * @returns {import("./bench.mjs").Spread}
 */
export function spread(samples) {
  return {
    median: rounded(median(samples)),
    min: rounded(Math.min(...samples)),
    max: rounded(Math.max(...samples)),
    samples: samples.map(rounded),
  };
}

/**
 * The median of the rounds' ratios: what slowed a round down slowed both of them.
 * @param {readonly number[]} theirs
 * @param {readonly number[]} ours
 */
export function ratio(theirs, ours) {
  return rounded(median(theirs.map((value, round) => value / (ours[round] ?? Number.NaN))));
}

/** Four digits: more than a measurement is good for. What was counted stays. @param {number} value */
function rounded(value) {
  return Number.isInteger(value) ? value : Number(value.toPrecision(4));
}
