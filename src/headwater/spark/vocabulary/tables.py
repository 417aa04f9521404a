"""The closed world: every class of expression that a view may be made of, and every one that is refused by name.

A name is that of a class below `org.apache.spark.sql.catalyst.expressions`. The accepted ones stand in groups, the
refused ones with the name that SQL knows them by. What is in neither is refused, too.
"""

from __future__ import annotations

SCALARS = {
    "the skeleton of a query": """
        Alias AttributeReference Cast CommonExpressionDef CommonExpressionRef CurrentRow$ Exists GetArrayItem
        GetArrayStructFields GetMapValue GetStructField Grouping GroupingID InSubquery KnownFloatingPointNormalized
        KnownNullable LambdaFunction LateralSubquery ListQuery Literal NamedLambdaVariable OuterReference
        PreciseTimestampConversion ScalarSubquery
        SortOrder SpecifiedWindowFrame TryEval UnboundedFollowing$ UnboundedPreceding$ UnspecifiedFrame$
        WindowExpression WindowSpecDefinition With aggregate.AggregateExpression
    """,
    "conditions": """
        And AssertTrue Between CaseWhen Coalesce EqualNull EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual ILike If
        In IsNaN IsNotNull IsNull LessThan LessThanOrEqual Like LikeAll LikeAny NaNvl Not NotLikeAll NotLikeAny NullIf
        NullIfResult NullIfZero Nvl Nvl2 Or RLike RaiseError ZeroIfNull
    """,
    "numbers": """
        Abs Acos Acosh Add Asin Asinh Atan Atan2 Atanh BRound Bin BitmapBitPosition BitmapBucketNumber BitmapCount
        BitwiseAnd BitwiseCount BitwiseGet BitwiseNot BitwiseOr BitwiseXor Cbrt Ceil Conv Cos Cosh Cot Csc Divide
        EulerNumber Exp Expm1 Factorial Floor Greatest Hex Hypot IntegralDivide Least Log Log10 Log1p Log2 Logarithm
        Multiply Pi Pmod Pow Remainder Rint Round RoundCeil RoundFloor Sec ShiftLeft ShiftRight ShiftRightUnsigned
        Signum Sin Sinh Sqrt Subtract Tan Tanh ToDegrees ToRadians TryAdd TryDivide TryMod TryMultiply TrySubtract
        UnaryMinus UnaryPositive Unhex VectorCosineSimilarity VectorInnerProduct VectorL2Distance VectorNorm
        VectorNormalize WidthBucket
    """,
    "text and bytes": """
        AesDecrypt AesEncrypt Ascii Base32 Base64 BinaryPad BinaryPredicate BitLength Chr Collation ConcatWs Contains
        Crc32 Decode Elt Encode EndsWith FindInSet FormatNumber FormatString Hmac InitCap IsValidUTF8 JaroWinkler Left
        Length Levenshtein Lower Luhncheck MakeValidUTF8 Mask Md5 Murmur3Hash OctetLength Overlay ParseUrl Quote
        RegExpCount RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr Right Sentences Sha1 Sha2
        SoundEx SplitPart StartsWith StringDecode StringInstr StringInstrWithOccurrence StringLPad StringLocate
        StringRPad StringRepeat StringReplace StringSpace StringSplit StringSplitSQL StringTranslate StringTrim
        StringTrimBoth StringTrimLeft StringTrimRight Substring SubstringIndex ToBinary ToCharacter ToNumber
        TryAesDecrypt TryParseUrl TryToBinary TryToNumber TryUrlDecode TryValidateUTF8 TypeOf UnBase32 UnBase64 Upper
        UrlDecode UrlEncode ValidateUTF8 XxHash64
    """,
    "dates, times and intervals": """
        AddMonths ConvertTimezone DateAdd DateAddInterval DateAddYMInterval DateDiff DateFormatClass DateFromUnixDate
        DateSub DatetimeSub DayName DayOfMonth DayOfWeek DayOfYear DivideDTInterval DivideInterval DivideYMInterval
        Extract ExtractANSIIntervalDays ExtractANSIIntervalHours ExtractANSIIntervalMinutes ExtractANSIIntervalMonths
        ExtractANSIIntervalSeconds ExtractANSIIntervalYears ExtractIntervalDays ExtractIntervalHours
        ExtractIntervalMinutes ExtractIntervalMonths ExtractIntervalSeconds ExtractIntervalYears FromUTCTimestamp
        FromUnixTime GetTimestamp Hour HoursOfTime LastDay MakeDTInterval MakeDate MakeInterval MakeTime MakeTimestamp
        MakeTimestampFromDateTime MakeTimestampLTZ MakeTimestampLTZNanos MakeTimestampNTZ MakeTimestampNTZNanos
        MakeYMInterval MicrosToTimestamp MillisToTimestamp Minute MinutesOfTime Month MonthName MonthsBetween
        MultiplyDTInterval MultiplyInterval MultiplyYMInterval NanosToTimestamp NextDay ParseToDate ParseToTimestamp
        Quarter Second SecondWithFraction SecondWithFractionNanos SecondsOfTime SecondsOfTimeWithFraction
        SecondsToTimestamp SessionWindow SubtractDates SubtractTimes SubtractTimestamps TimeAddInterval TimeBucket
        TimeDiff TimeFromMicros TimeFromMillis TimeFromSeconds TimeToMicros TimeToMillis TimeToSeconds TimeTrunc
        TimeWindow TimestampAdd TimestampAddInterval TimestampAddYMInterval TimestampDiff ToTime ToUTCTimestamp
        ToUnixTimestamp TruncDate TruncTimestamp TryMakeInterval TryMakeTimestamp TryMakeTimestampFromDateTime UnixDate
        UnixMicros UnixMillis UnixNanos UnixSeconds UnixTimestamp WeekDay WeekOfYear WindowTime Year YearOfWeek
    """,
    "arrays, maps, structs and functions of them": """
        ArrayAggregate ArrayAppend ArrayBinarySearch ArrayCompact ArrayContains ArrayDistinct ArrayExcept ArrayExists
        ArrayFilter ArrayForAll ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin ArrayPosition ArrayPrepend
        ArrayRemove ArrayRepeat ArraySize ArraySort ArrayTransform ArrayUnion ArraysOverlap ArraysZip Concat CreateArray
        CreateMap CreateNamedStruct ElementAt Flatten Get MapConcat MapContainsKey MapEntries MapFilter MapFromArrays
        MapFromEntries MapKeys MapValues MapZipWith Reverse Sequence Size Slice SortArray StringToMap TransformKeys
        TransformValues TryElementAt ZipWith
    """,
    "rows from one row": """
        Explode GeneratorOuter Inline JsonTable JsonTuple PosExplode Stack Unnest variant.VariantExplode
    """,
    "CSV, JSON, XML and variants": """
        CsvToStructs GetJsonObject JsonObjectKeys JsonToStructs LengthOfJsonArray SchemaOfCsv SchemaOfJson SchemaOfXml
        StructsToCsv StructsToJson StructsToXml XmlToStructs variant.IsValidVariant variant.IsVariantNull
        variant.ParseJson variant.SchemaOfVariant variant.ToVariantObject variant.VariantArrayAppend
        variant.VariantDelete variant.VariantGet variant.VariantInsert variant.VariantSet variant.VariantStripNulls
        xml.XPathBoolean xml.XPathDouble xml.XPathFloat xml.XPathInt xml.XPathList xml.XPathLong xml.XPathShort
        xml.XPathString
    """,
    "places on the earth": "st.ST_AsBinary st.ST_GeogFromWKB st.ST_GeomFromWKB st.ST_SetSrid st.ST_Srid",
    # They read a sketch that came from outside, or combine two of them, always in the same way.
    "sketches that are columns": """
        ApproxTopKEstimate HllSketchEstimate HllUnion KllSketchGetNBigint KllSketchGetNDouble KllSketchGetNFloat
        KllSketchGetQuantileBigint KllSketchGetQuantileDouble KllSketchGetQuantileFloat KllSketchGetRankBigint
        KllSketchGetRankDouble KllSketchGetRankFloat KllSketchToStringBigint KllSketchToStringDouble
        KllSketchToStringFloat ThetaDifference ThetaIntersection ThetaSketchEstimate ThetaUnion TupleDifferenceDouble
        TupleDifferenceInteger TupleDifferenceThetaDouble TupleDifferenceThetaInteger TupleIntersectionDouble
        TupleIntersectionInteger TupleIntersectionThetaDouble TupleIntersectionThetaInteger TupleSketchEstimateDouble
        TupleSketchEstimateInteger TupleSketchSummaryDouble TupleSketchSummaryInteger TupleSketchThetaDouble
        TupleSketchThetaInteger TupleUnionDouble TupleUnionInteger TupleUnionThetaDouble TupleUnionThetaInteger
    """,
    "functions of the application": "PythonUDF",
}
"""Expressions whose value is a function of their arguments."""

AGGREGATES = """
    BitmapAndAgg BitmapConstructAgg BitmapOrAgg aggregate.Average aggregate.BitAndAgg aggregate.BitOrAgg
    aggregate.BitXorAgg aggregate.BoolAnd aggregate.BoolOr aggregate.Corr aggregate.Count aggregate.CountIf
    aggregate.CountMinSketchAgg aggregate.CovPopulation aggregate.CovSample aggregate.HyperLogLogPlusPlus
    aggregate.Kurtosis aggregate.Max aggregate.Median aggregate.Min aggregate.Percentile aggregate.PercentileCont
    aggregate.PercentileDisc aggregate.PivotFirst aggregate.RegrAvgX aggregate.RegrAvgY aggregate.RegrCount
    aggregate.RegrIntercept aggregate.RegrR2 aggregate.RegrReplacement aggregate.RegrSXX aggregate.RegrSXY
    aggregate.RegrSYY aggregate.RegrSlope aggregate.Skewness aggregate.StddevPop aggregate.StddevSamp aggregate.Sum
    aggregate.VariancePop aggregate.VarianceSamp variant.SchemaOfVariantAgg
"""
"""Aggregates whose result is the same for every order of their rows, but for the last bits of a double."""

PEERS = "CumeDist DenseRank PercentRank Rank"
"""Functions of windows that give rows of one place in the order one result."""

SETTLED = {
    "aggregate.CollectList": "collect_list",
    "aggregate.CollectSet": "collect_set",
    "aggregate.ListAgg": "listagg",
    "aggregate.MaxBy": "max_by",
    "aggregate.MinBy": "min_by",
    "aggregate.Mode": "mode",
}
"""Aggregates that depend on the order of rows, and that are given one."""

ORDER = {
    "CounterDiff": "counter_diff",
    "CounterDiffWithStartTime": "counter_diff",
    "Lag": "lag",
    "Lead": "lead",
    "NTile": "ntile",
    "NthValue": "nth_value",
    "RowNumber": "row_number",
    "aggregate.AnyValue": "any_value",
    "aggregate.CollectUnion": "collect_union",
    "aggregate.First": "first",
    "aggregate.Last": "last",
    "aggregate.MaxMinByK": "max_by",
}
"""Functions that depend on the order of rows: accepted in a window, which has one, refused as aggregates."""

CLOCK = {
    "CurrentBatchTimestamp": "current_timestamp",
    "CurrentDate": "current_date",
    "CurrentTime": "current_time",
    "CurrentTimestamp": "current_timestamp",
    "CurrentTimestampNanos": "current_timestamp",
    "LocalTimestamp": "localtimestamp",
    "LocalTimestampNanos": "localtimestamp",
    "Now": "now",
}
"""Functions that read the clock."""

CHANCE = {
    "MonotonicallyIncreasingID": "monotonically_increasing_id",
    "Rand": "rand",
    "RandStr": "randstr",
    "Randn": "randn",
    "Shuffle": "shuffle",
    "Uniform": "uniform",
    "Uuid": "uuid",
}
"""Functions that throw dice, or number rows as they come."""

ENVIRONMENT = {
    "CallMethodViaReflection": "reflect",
    "Collations": "collations",
    "CurrentCatalog": "current_catalog",
    "CurrentDatabase": "current_database",
    "CurrentPath": "current_path",
    "CurrentTimeZone": "current_timezone",
    "CurrentUser": "current_user",
    "FromAvro": "from_avro",
    "FromProtobuf": "from_protobuf",
    "InputFileBlockLength": "input_file_block_length",
    "InputFileBlockStart": "input_file_block_start",
    "InputFileName": "input_file_name",
    "SQLKeywords": "sql_keywords",
    "SchemaOfAvro": "schema_of_avro",
    "SparkPartitionID": "spark_partition_id",
    "SparkVersion": "version",
    "ToAvro": "to_avro",
    "ToProtobuf": "to_protobuf",
    "TryReflect": "try_reflect",
    "VariableReference": "a variable of the session",
    "aggregate.Measure": "measure",
}
"""Functions that ask the session, the catalog, a file or Java."""

UNSTABLE = {
    "KllSketchMergeBigint": "kll_sketch_merge_bigint",
    "KllSketchMergeDouble": "kll_sketch_merge_double",
    "KllSketchMergeFloat": "kll_sketch_merge_float",
    "VectorAvg": "vector_avg",
    "VectorSum": "vector_sum",
    "aggregate.ApproxTopK": "approx_top_k",
    "aggregate.ApproxTopKAccumulate": "approx_top_k_accumulate",
    "aggregate.ApproxTopKCombine": "approx_top_k_combine",
    "aggregate.ApproximatePercentile": "approx_percentile",
    "aggregate.HistogramNumeric": "histogram_numeric",
    "aggregate.HllSketchAgg": "hll_sketch_agg",
    "aggregate.HllUnionAgg": "hll_union_agg",
    "aggregate.KllMergeAggBigint": "kll_merge_agg_bigint",
    "aggregate.KllMergeAggDouble": "kll_merge_agg_double",
    "aggregate.KllMergeAggFloat": "kll_merge_agg_float",
    "aggregate.KllSketchAggBigint": "kll_sketch_agg_bigint",
    "aggregate.KllSketchAggDouble": "kll_sketch_agg_double",
    "aggregate.KllSketchAggFloat": "kll_sketch_agg_float",
    "aggregate.ThetaIntersectionAgg": "theta_intersection_agg",
    "aggregate.ThetaSketchAgg": "theta_sketch_agg",
    "aggregate.ThetaUnionAgg": "theta_union_agg",
    "aggregate.TupleIntersectionAggDouble": "tuple_intersection_agg_double",
    "aggregate.TupleIntersectionAggInteger": "tuple_intersection_agg_integer",
    "aggregate.TupleSketchAggDouble": "tuple_sketch_agg_double",
    "aggregate.TupleSketchAggInteger": "tuple_sketch_agg_integer",
    "aggregate.TupleUnionAggDouble": "tuple_union_agg_double",
    "aggregate.TupleUnionAggInteger": "tuple_union_agg_integer",
}
"""Approximations and sums whose bits depend on the order of rows, or on chance."""

COLLATION = {"Collate": "COLLATE", "ResolvedCollation": "COLLATE"}
"""What makes values equal that are not the same."""

BUILDERS = {
    "CurDate": "CurrentDate",
    "DatePart": "Extract",
    "ExplodeOuter": "Explode",
    "InlineOuter": "Inline",
    "LPad": "StringLPad",
    "ParseToTimestampLTZ": "ParseToTimestamp",
    "ParseToTimestampNTZ": "ParseToTimestamp",
    "PosExplodeOuter": "PosExplode",
    "RPad": "StringRPad",
    "aggregate.TryAverage": "try_avg",
    "TryMakeTimestampLTZ": "TryMakeTimestamp",
    "TryMakeTimestampNTZ": "TryMakeTimestamp",
    "aggregate.TrySum": "try_sum",
    "TryToDate": "ParseToDate",
    "TryToTime": "ToTime",
    "TryToTimestamp": "ParseToTimestamp",
    "variant.TryParseJson": "variant.ParseJson",
    "variant.TryVariantArrayAppend": "variant.VariantArrayAppend",
    "variant.TryVariantGet": "variant.VariantGet",
    "variant.TryVariantInsert": "variant.VariantInsert",
    "variant.TryVariantSet": "variant.VariantSet",
    "variant.VariantExplodeOuter": "variant.VariantExplode",
}
"""What the registry's builders of expressions build, where their name does not say it."""

RELATIONS = {"Range": True, "PythonWorkerLogs": False}
"""Functions that are relations, not expressions, and whether they are accepted."""

IN_TEXT = frozenset({"try_avg", "try_sum"})
"""Functions that a plan does not tell from others. Whether a partial sum overflows depends on the order of rows."""

COMPUTED_IN_VALUES = {"aes_encrypt": "AesEncrypt", "version": "SparkVersion"}
"""Functions that are not in a plan where VALUES has them, with their classes."""

ALIASES = {
    "approx_percentile": "percentile_approx",
    "current_database": "current_schema",
    "current_date": "curdate",
    "current_time": "localtime",
    "current_user": "session_user user",
    "first": "first_value",
    "last": "last_value",
    "listagg": "string_agg",
    "rand": "random",
    "reflect": "java_method",
}
"""Other names of functions that are refused."""

INPUTS = """
    AttributeReference CommonExpressionRef Exists InSubquery NamedLambdaVariable OuterReference PythonUDF ScalarSubquery
    WindowExpression aggregate.AggregateExpression
"""
"""Expressions whose value comes with a row: a query can be planned without it."""

CHOICES = "CaseWhen Coalesce Greatest If KnownNullable Least Nvl Nvl2 TryEval"
"""Expressions that give one of their arguments."""

NOT_STRINGS = """
    Add AddMonths ConvertTimezone DateAdd DateAddInterval DateAddYMInterval DateDiff DateFromUnixDate DateSub
    DatetimeSub Divide FromUTCTimestamp GetTimestamp LastDay MakeDate MakeTimestamp MakeTimestampFromDateTime
    MakeTimestampLTZ MakeTimestampNTZ MicrosToTimestamp MillisToTimestamp Multiply NanosToTimestamp NextDay ParseToDate
    ParseToTimestamp PreciseTimestampConversion SecondsToTimestamp Subtract SubtractDates SubtractTimestamps TimeBucket
    TimestampAdd TimestampAddInterval TimestampAddYMInterval TimestampDiff ToUTCTimestamp ToUnixTimestamp TruncDate
    TruncTimestamp TryAdd TryMakeTimestamp TryMakeTimestampFromDateTime TrySubtract UnaryMinus UnaryPositive UnixDate
    UnixMicros UnixMillis UnixSeconds UnixTimestamp
"""
"""Expressions that give a date, a time or a number, never a string."""
