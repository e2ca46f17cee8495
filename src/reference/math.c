#include <math.h>

#include "reference/interp_parts.h"
#include "ir/scalar.h"
#include "ir/threefry.h"

/* Giles, "Approximating the erfinv function" (2010): polynomials in w = -log(1 - x*x), highest power first. In float32 the
 * square is rounded before it is subtracted, not fused: the reference random numbers carry that rounding in their tail. */
static const float f32_middle[] = {2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                   -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
static const float f32_tail[] = {-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                                 -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};

static const double f64_middle[] = {
    -3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,  1.115787767802518096e-17,
    -1.333171662854620906e-16,  2.0972767875968561637e-17,  6.6376381343583238325e-15,  -4.0545662729752068639e-14,
    -8.1519341976054721522e-14, 2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
    -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,   -0.00074070253416626697512,
    -0.0060336708714301490533,  0.24015818242558961693,     1.6536545626831027356};
static const double f64_far[] = {
    2.2137376921775787049e-09,  9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
    1.5027403968909827627e-06,  -4.013867526981545969e-06, 2.9234449089955446044e-06,  1.2475304481671778723e-05,
    -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05,  -0.0003550375203628474796,
    0.00095328937973738049703,  -0.0016882755560235047313, 0.0024914420961078508066,   -0.0037512085075692412107,
    0.005370914553590063617,    1.0052589676941592334,     3.0838856104922207635};
static const double f64_tail[] = {-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
                                  -3.7894654401267369937e-09, 7.6157012080783393804e-09,  -1.4960026627149240478e-08,
                                  2.9147953450901080826e-08,  -6.7711997758452339498e-08, 2.2900482228026654717e-07,
                                  -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
                                  7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026,
                                  1.0103004648645343977,      4.8499064014085844221};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static float horner_f32(const float *c, int count, float x) {
    float p = c[0];
    for (int i = 1; i < count; i++) p = p * x + c[i];
    return p;
}

static double horner_f64(const double *c, int count, double x) {
    double p = c[0];
    for (int i = 1; i < count; i++) p = p * x + c[i];
    return p;
}

float bti_erfinv_f32(float x) {
    if (fabsf(x) == 1) return x * INFINITY;
    float square = x * x, w = -log1pf(-square);
    float p = w < 5 ? horner_f32(f32_middle, COUNT(f32_middle), w - 2.5f)
                    : horner_f32(f32_tail, COUNT(f32_tail), sqrtf(w) - 3);
    return p * x;
}

double bti_erfinv_f64(double x) {
    if (fabs(x) == 1) return x * (double)INFINITY;
    double w = -log((1 - x) * (1 + x)); /* exact to the tail's end; no reference to agree with bit by bit */
    double p = w < 6.25 ? horner_f64(f64_middle, COUNT(f64_middle), w - 3.125)
               : w < 16 ? horner_f64(f64_far, COUNT(f64_far), sqrt(w) - 3.25)
                        : horner_f64(f64_tail, COUNT(f64_tail), sqrt(w) - 5);
    return p * x;
}

void bti_threefry_block(const uint32_t key[2], const uint32_t counter[2], uint32_t word[2]) {
    bti_threefry(key[0], key[1], counter[0], counter[1], &word[0], &word[1]);
}

uint32_t bti_random_word(const uint32_t key[2], uint32_t number, uint32_t count) {
    return bti_threefry_word(key[0], key[1], number, count);
}
